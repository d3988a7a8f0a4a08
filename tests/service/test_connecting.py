"""Commands that talk to a service say which one did not answer, and which option takes a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from opportune.cli import connecting, run
from opportune.cli.connecting import Service
from opportune.client.problems import NotAllowedError, NotFoundError
from opportune.errors import OpportuneError
from tests.client.serving import Served


def told(service: Service) -> str:
    """The one problem that asking for a pool comes to."""
    with pytest.raises(OpportuneError) as caught, service.client() as client:
        client.get_pool("desk")
    (problem,) = caught.value.problems
    return f"{problem.field}: {problem.value}; {problem.remedy}"


def test_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 0.2)
    said = told(Service("http://127.0.0.1:9"))
    assert said.startswith("--url: http://127.0.0.1:9: ConnectError")
    assert "`opportune serve`" in said
    assert "OPPORTUNE_URL" in said


def test_a_key_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = {}
    for scope in ("read", "decide"):
        database = str(tmp_path / "opportune.db")
        assert run(["keys", "create", "--scope", scope, "--database", database]) == 0
        made[scope] = capsys.readouterr().out.split()[0]
    served = Served(tmp_path)
    try:
        assert told(Service(served.url)).startswith("--key: missing; set OPPORTUNE_API_KEY")
        wrong = Service(served.url, "opp_" + "A" * 43)
        assert told(wrong).startswith("--key: not known to the service; set OPPORTUNE_API_KEY")
        with (
            pytest.raises(NotAllowedError, match="scope"),
            Service(served.url, made["decide"]).client() as client,
        ):
            client.get_pool("desk")
        with pytest.raises(NotFoundError), Service(served.url, made["read"]).client() as client:
            client.get_pool("desk")
    finally:
        served.kill()
