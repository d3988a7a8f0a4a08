"""Whatever a log holds, reading and fitting it ends in a result or in a message."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opportune.errors import OpportuneError
from opportune.learning.fit.columns import columns_of
from opportune.learning.fit.files import fit_record, write_fit
from opportune.learning.fit.instance import FitSettings, fit_log
from opportune.learning.fit.log import LogRules, read_log
from opportune.model.files import load_instance

TIMES = st.one_of(
    st.integers(-3, 40).map(str),
    st.floats(-5, 50).map(lambda x: f"{x:.3f}"),
    st.sampled_from(["", "nan", "inf", "1e300", "-1e14", "soon", "2026-03-01T08:00", "1_0", " 7 "]),
)
NAMES = st.sampled_from(["a", "b", "A", "a ", "", "0", "Zoë", "x,y", '"q"', "nan"])
NUMBERS = st.one_of(
    st.integers(-2, 30).map(str),
    st.floats(0, 1).map(lambda x: f"{x:.4f}"),
    st.sampled_from(["", "nan", "-inf", "1e308", "true", "no", "0,5", "1e-320"]),
)
HEADER = ("time", "task", "task_type", "server", "start", "duration", "outcome", "propensity", "x")
ROW = st.tuples(TIMES, NAMES, NAMES, NAMES, TIMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
CHOICE = st.fixed_dictionaries(
    {
        "roles": st.lists(st.sampled_from(HEADER[1:-1]), unique=True).map(
            lambda some: sorted({"time", "server", *some})
        ),
        "context": st.booleans(),
        "day": st.sampled_from([None, 10]),
        "bad_rows": st.sampled_from(["refuse", "drop", "drop", "drop"]),
        "too_short": st.sampled_from(["refuse", "one-step", "drop"]),
        "missing_outcome": st.sampled_from(["discard", "zero"]),
        "score": st.sampled_from(["outcome", "speed", "none"]),
        "types": st.sampled_from([None, 1, 2]),
        "periods": st.sampled_from([1, 2]),
    }
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROW, min_size=1, max_size=40), choice=CHOICE)
def test_any_log_ends_in_an_instance_or_a_message(
    tmp_path: Path, rows: list[tuple[str, ...]], choice: dict[str, object]
) -> None:
    path = tmp_path / "log.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    data: dict[str, object] = {role: role for role in choice["roles"]}  # type: ignore[attr-defined]
    data |= {"context": ["x"]} if choice["context"] else {}
    data |= {} if choice["day"] is None else {"day": choice["day"]}
    try:
        log = read_log(
            path,
            columns_of(data),
            LogRules(*(choice[key] for key in ("bad_rows", "too_short", "missing_outcome"))),  # type: ignore[arg-type]
        )
        fit = fit_log(
            log,
            FitSettings(score=choice["score"], types=choice["types"], periods=choice["periods"]),  # type: ignore[arg-type]
        )
    except OpportuneError as error:
        told = [one for one in error.problems if one.field and one.value and one.expected]
        if len(told) < len(error.problems):
            raise AssertionError("a problem that says too little") from error
        return
    made = write_fit(fit, tmp_path / "out")
    assert load_instance(made[0]).n_servers == fit.instance.n_servers
    assert np.isfinite(fit.instance.match_reward).all()
    assert fit_record(fit)["log"]["tasks"] == log.n_tasks


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_smallest_logs(tmp_path: Path, n: int) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"{3 * i},x,2,{i % 2}\n" for i in range(n))
    path.write_text("time,server,duration,outcome\n" + rows, encoding="utf-8")
    fit = fit_log(read_log(path))
    assert fit.instance.n_servers == 1
    assert fit.scores is not None
    assert fit.scores.table.low[0, 0] < fit.scores.table.high[0, 0]
