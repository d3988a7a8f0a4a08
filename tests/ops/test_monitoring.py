"""The Grafana board and the alerts name only metrics and labels that a served pool exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.service.serving import declare, service

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "ops"
RULES = OPS / "prometheus" / "alerts.yml"
PAGE = ROOT / "docs" / "how-to" / "run-the-service.md"
FROM_PROMETHEUS = {"up": {"instance", "job"}}
EVERYWHERE = {"instance", "job"}
"""Labels that Prometheus itself adds."""

PATIENCE = 60.0

Exported = dict[str, set[str]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Names of all samples of a node whose pool has seen everything, with their labels."""
    with service(tmp_path_factory.mktemp("ops") / "ops.db") as client:
        declare(client, learning="shadow")
        for _ in range(2):
            client.good("POST", "/v1/pools/p/plans", {})
        plans = [one["id"] for one in client.good("GET", "/v1/pools/p/plans")]
        client.good("POST", f"/v1/pools/p/plans/{plans[0]}:shadow")
        made = [client.assign() for _ in range(3)]
        client("POST", "/v1/pools/p/assignments", {"task_type": "t"})  # dropped
        for one in made:
            client.complete(one, value=1.0)
        for _ in range(60):
            client.complete(client.assign(), value=0.5)
        client.good("PUT", "/v1/pools/p", {"auto_accept": False, "learning": "shadow"})
        offered = client.assign()["assignment_id"]
        client.good("POST", f"/v1/assignments/{offered}:accept")
        limit = time.monotonic() + PATIENCE
        while "outcomes_missing_ratio{" not in (text := client("GET", "/metrics").text):
            assert time.monotonic() < limit  # the learner reads the journal in its own time
            time.sleep(0.1)
    found: Exported = dict(FROM_PROMETHEUS)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(set(sample.labels) | EVERYWHERE)
    return found


def board() -> Any:
    return json.loads((OPS / "grafana" / "opportune.json").read_text(encoding="utf-8"))


def rules() -> list[Any]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """Every expression, with the name of its panel or alert."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in board()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def parts(node: Any) -> Iterator[Any]:
    """A parsed expression and everything in it."""
    yield node
    for name in ("lhs", "rhs", "expr", "args", "vector_selector"):
        inner = getattr(node, name, None)
        for one in inner if isinstance(inner, list) else [inner]:
            if one is not None:
                yield from parts(one)


def problems(expression: str, exported: Exported) -> list[str]:
    """Names and labels in an expression that no sample has."""
    nodes = list(parts(promql_parser.parse(expression)))
    selectors = [node for node in nodes if isinstance(node, promql_parser.VectorSelector)]
    wrong = [f"no metric {one.name}" for one in selectors if one.name not in exported]
    known = [exported.get(one.name, set()) for one in selectors]
    for one, labels in zip(selectors, known, strict=True):
        used = {matcher.name for matcher in one.matchers.matchers}
        wrong += [f"{one.name} has no label {label}" for label in used - labels]
    grouped = {
        label
        for node in nodes
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None
        for label in node.modifier.labels
    }
    return wrong + [f"no label {label}" for label in grouped if not any(label in k for k in known)]


@pytest.mark.parametrize(("name", "expression"), list(queries()))
def test_an_expression_is_about_what_is_exported(
    name: str, expression: str, exported: Exported
) -> None:
    assert problems(expression, exported) == [], name


def test_the_check_sees_what_is_wrong(exported: Exported) -> None:
    assert problems('sum by (lane) (opportune_servers{pol="p"})', exported) == [
        "opportune_servers has no label pol",
        "no label lane",
    ]
    assert problems("opportune_sevrers", exported) == ["no metric opportune_sevrers"]
    with pytest.raises(ValueError, match=r"."):
        problems("rate(opportune_servers[)", exported)


def test_labels_of_legends_and_texts_are_in_the_result() -> None:
    """What ``{{label}}`` names is a label that the expression keeps."""
    for panel in board()["panels"]:
        for target in panel.get("targets", ()):
            kept = set(re.findall(r"by \(([^)]*)\)", target["expr"])[0].split(", "))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]
    for rule in rules():
        kept = set(EVERYWHERE | {"pool"})
        for by in re.findall(r"by \(([^)]*)\)", rule["expr"])[:1]:
            kept = set(by.split(", "))
        texts = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= kept, rule["alert"]


def test_panels_lie_side_by_side_and_say_what_they_show() -> None:
    panels = board()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["fieldConfig"]["defaults"]["unit"]


def test_every_alert_has_a_section_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = {line[4:].strip().lower() for line in text.splitlines() if line.startswith("### ")}
    for rule in rules():
        page, _, section = rule["annotations"]["runbook"].partition("#")
        assert (page, section) == (PAGE.name, rule["alert"].lower())
        assert section in sections
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(
    "words", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts.test.yml")]
)
def test_promtool_finds_nothing(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
