"""The files of ``ops/several-nodes``: what they name exists, what they run runs here too.

There is no container engine where these tests run: images are not built.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.service.test_serve_commands import served

FOLDER = Path(__file__).resolve().parents[2] / "ops" / "several-nodes"
MADE_BY_THE_READER = {"./opportune.key"}
NOWHERE = "--database=postgresql://opportune:x@127.0.0.1:1/opportune"
"""A database that no node finds."""


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text("utf-8"))["services"]
    return found


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile: names and the rest of the lines."""
    lines = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", "").splitlines()
    whole = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, " ".join(rest.split())) for name, _, rest in whole]


def test_an_image_is_made_of_files_that_are_there_and_runs_without_rights() -> None:
    copied = [one for name, rest in instructions() if name == "COPY" for one in rest.split()[:-1]]
    assert "src" in copied
    assert all((FOLDER.parents[1] / one).exists() for one in copied)
    assert "." not in copied  # keys and journals stay out of it
    (user,) = [rest for name, rest in instructions() if name == "USER"]
    assert user.isascii()
    assert int(user.partition(":")[0]) > 0


def test_what_an_image_runs_when_it_is_built_runs(tmp_path: Path) -> None:
    commands = [rest for name, rest in instructions() if name == "RUN" and "pip" not in rest]
    parts = [part for one in commands for part in one.removesuffix(" ").split(" && ")]
    assert [part.split()[0] for part in parts] == ["opportune", "python"]
    for part in parts:
        words = shlex.split(part.partition(" > ")[0])
        start = [sys.executable, "-m", "opportune"] if words[0] == "opportune" else [sys.executable]
        subprocess.run([*start, *words[1:]], check=True, stdout=subprocess.DEVNULL, cwd=tmp_path)


def test_nodes_are_healthy_while_they_serve(services: dict[str, Any], tmp_path: Path) -> None:
    """Their check says so here too, with this service's port, and no more when it has ended."""
    kind, program, *words = services["node-1"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")

    def check(address: str) -> int:
        asked = [word.replace("http://127.0.0.1:8080", address) for word in words]
        assert asked != words
        command = [sys.executable, *asked]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode

    with served("--memory", folder=tmp_path) as (_, address):
        assert check(address) == 0
    assert check(address) != 0


def test_nodes_are_started_with_options_that_there_are(
    services: dict[str, Any], tmp_path: Path
) -> None:
    """A database that does not answer is the only thing that is wrong with them."""
    words = services["node-1"]["command"]
    for name in ("node-2", "node-3"):
        assert services[name]["command"] == [word.replace("node-1", name) for word in words]
    asked = [NOWHERE if word.startswith("--database=") else word for word in words]
    assert asked != words
    command = [sys.executable, "-m", "opportune", *asked]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "a database that answers" in ended.stderr


def test_only_this_machine_reaches_what_has_no_tls(services: dict[str, Any]) -> None:
    published = [port for one in services.values() for port in one.get("ports", ())]
    assert len(published) == 2
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_volume_and_every_service_that_is_waited_for_is_declared() -> None:
    whole = yaml.safe_load((FOLDER / "compose.yml").read_text("utf-8"))
    for one in whole["services"].values():
        assert set(one.get("depends_on", ())) <= set(whole["services"])
        named = {volume.partition(":")[0] for volume in one.get("volumes", ())}
        assert {name for name in named if not name.startswith(".")} <= set(whole["volumes"])
    assert "healthcheck" in whole["services"]["postgres"]  # what nodes wait for


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
