"""The files of ``ops/several-nodes``: what they name exists, and nginx can read its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "ops" / "several-nodes"
MADE_BY_THE_READER = {"./opportune.key"}


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text("utf-8"))["services"]
    return found


def test_every_file_that_is_mounted_is_there(services: dict[str, Any]) -> None:
    mounted = [
        volume.partition(":")[0]
        for one in services.values()
        for volume in one.get("volumes", ())
        if volume.startswith(".")
    ]
    assert len(mounted) >= 5
    missing = [one for one in mounted if not (FOLDER / one).exists()]
    assert set(missing) <= MADE_BY_THE_READER


def test_the_nodes_are_those_of_nginx_and_prometheus(services: dict[str, Any]) -> None:
    names = {name for name in services if name.startswith("node-")}
    assert len(names) == 3
    for name in names:
        assert f"--advertise=http://{name}:8080" in services[name]["command"]
    for file in ("nginx.conf", "prometheus.yml"):
        text = (FOLDER / file).read_text("utf-8")
        assert set(re.findall(r"(node-\d):8080", text)) == names


def test_nginx_reads_its_configuration(tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    text = re.sub(r"node-\d:8080", "127.0.0.1:8080", (FOLDER / "nginx.conf").read_text("utf-8"))
    text = re.sub(r"(?m)^pid .*;", f"pid {tmp_path}/nginx.pid;", text)
    (tmp_path / "nginx.conf").write_text(text, encoding="utf-8")
    words = [nginx, "-t", "-c", str(tmp_path / "nginx.conf")]
    checked = subprocess.run(words, check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
