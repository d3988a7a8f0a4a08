"""The function and the command behind ``opportune split``: rows, pairing, pages, refusals."""

from __future__ import annotations

import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opportune.cli import run
from opportune.errors import InputError
from opportune.experiments.comparison import compare
from opportune.experiments.settings import Settings
from opportune.experiments.split import SplitGrid, Splitting, split_pool
from opportune.model.catalog import catalog_instance
from opportune.model.duration import Geometric
from opportune.model.loss import LossInstance, loss_instance
from opportune.simulate.split import Split

SMALL = Settings(("lag", "greedy"), 4_000, 4)


def rows_of(result: Splitting, policy: str) -> dict[tuple[int, int | None, int], tuple[float, ...]]:
    """Numbers of each split of a policy."""
    return {
        (row.split.subpools, row.split.redeal, row.split.tries): (
            row.percent_of_one_owner,
            row.half_width,
            row.blocking,
        )
        for row in result.rows
        if row.policy == policy
    }


def test_the_grid_is_all_combinations_with_one_owner_first() -> None:
    grid = SplitGrid((4, 1, 2), (None, 7), (1, 3))
    assert grid.splits == (
        Split(),
        Split(4, None, 1),
        Split(4, None, 3),
        Split(4, 7, 1),
        Split(4, 7, 3),
        Split(2, None, 1),
        Split(2, None, 2),  # three of two are two
        Split(2, 7, 1),
        Split(2, 7, 2),
    )
    assert SplitGrid().splits == (Split(), Split(2, 1000), Split(4, 1000), Split(8, 1000))


def test_one_owner_is_the_comparison_and_the_others_earn_less() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    result = split_pool(instance, SplitGrid((1, 2, 4, 8), (50,)), SMALL)
    plain = compare(instance, SMALL)
    for policy in ("lag", "greedy"):
        alone = next(row for row in result.rows if row.policy == policy)
        assert alone.reward == pytest.approx(plain.row(policy).reward, rel=1e-12)
        assert alone.blocking == plain.row(policy).blocking
    found = list(rows_of(result, "lag").values())
    assert [round(share) for share, _, _ in found[:1]] == [100]
    assert found[0][1] == 0.0
    for (more, _, fewer_drops), (less, width, drops) in itertools.pairwise(found):
        assert less < more - width
        assert drops > fewer_drops
    assert all(row.percent_of_bound < 100 for row in result.rows)


def test_more_sub_pools_asked_earn_more_and_never_dealing_anew_varies_more() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    grid = SplitGrid((4,), (10, None), (1, 2, 4))
    found = rows_of(split_pool(instance, grid, replace(SMALL, steps=20_000)), "lag")
    for redeal in (10, None):
        one, two, four = (found[4, redeal, tries] for tries in (1, 2, 4))
        assert one[0] < two[0] < four[0]
        assert one[2] > two[2] > four[2] == found[1, None, 1][2]
    assert found[4, None, 1][1] > found[4, 10, 1][1]


def test_large_sub_pools_lose_little() -> None:
    """Statistical economies of scale: the same pool 30 times as large loses much less."""
    shares = []
    for copies in (1, 30):
        reward = np.repeat([[1.0, 0.4], [0.2, 0.9]], 4 * copies, axis=1)
        instance = loss_instance(reward, [0.1, 0.1], Geometric(28.0 * copies), 1)
        result = split_pool(instance, SplitGrid((4,), (100,)), Settings(("lag",), 100_000, 2))
        shares.append(result.rows[-1].percent_of_one_owner)
    assert shares[0] < 85.0
    assert shares[1] > 95.0


def test_a_single_replication_has_an_interval_from_batches() -> None:
    instance = catalog_instance("priority-v1", 0.7)
    row = split_pool(instance, SplitGrid((2,)), replace(SMALL, replications=1)).rows[1]
    assert 0.1 < row.half_width < 30.0


def test_the_same_bits_for_any_workers_and_kept_ones_are_not_run_again(tmp_path: Path) -> None:
    instance = catalog_instance("priority-v1", 0.7)
    grid = SplitGrid((2, 4), (10, None), (1, 2))
    alone = split_pool(instance, grid, SMALL).rows
    for workers, backend in ((2, "threads"), (3, "loky")):
        settings = replace(SMALL, workers=workers, backend=backend, keep=tmp_path)
        assert split_pool(instance, grid, settings).rows == alone
    assert len(list(tmp_path.glob("*.npz"))) == len(grid.splits) * SMALL.replications


def test_without_arrivals_all_numbers_are_zero() -> None:
    instance = loss_instance([[1.0, 0.5]], [0.0], Geometric(3))
    result = split_pool(instance, SplitGrid((2,)), Settings(("greedy",), 100, 2))
    assert [row.percent_of_one_owner for row in result.rows] == [0.0, 0.0]
    assert [row.percent_of_bound for row in result.rows] == [0.0, 0.0]


def headcount_instance() -> LossInstance:
    return catalog_instance("priority-v1", 0.7)


def test_policies_of_the_whole_state_are_left_out_or_refused() -> None:
    grid, quick = SplitGrid((2,)), Settings(("all",), 200, 1)
    result = split_pool(headcount_instance(), grid, quick)
    assert {row.policy for row in result.rows} >= {"lag", "greedy", "random", "alg-sc-lp"}
    assert {text.partition(" ")[0] for text in result.warnings} >= {"headcount", "optimal"}
    with pytest.raises(InputError, match="headcount looks at who is busy"):
        split_pool(headcount_instance(), grid, replace(quick, policies=("lag", "headcount")))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"subpools": ()}, "subpools"),
        ({"subpools": (2, 2)}, "subpools"),
        ({"subpools": (0,)}, "subpools"),
        ({"redeal": (0,)}, "redeal"),
        ({"redeal": (None, None)}, "redeal"),
        ({"tries": (0,)}, "tries"),
        ({"subpools": tuple(range(1, 1003))}, "splits"),
    ],
)
def test_bad_grids_are_refused(values: dict[str, tuple[int, ...]], field: str) -> None:
    with pytest.raises(InputError) as caught:
        SplitGrid(**values)
    assert [problem.field for problem in caught.value.problems] == [field]


# ------------------------------------------------------------------------------ the command

WORDS = ["split", "priority-v1", "--load", ".7", "--steps", "2000", "--replications", "2"]


def test_json_and_csv_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--into", "2,4", "--redeal", "10,never", "--tries", "1,2"]
    assert run([*words, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["bound"]["name"] == "occ-lp-at-most"
    assert [row["redeal"] for row in record["rows"][:4]] == [None, 10, 10, None]
    assert run([*words, "--format", "csv"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(table) == len(record["rows"]) == 9
    for line, row in zip(table, record["rows"], strict=True):
        assert float(line["reward"]) == row["reward"]
        assert line["redeal"] == ("" if row["redeal"] is None else str(row["redeal"]))


def test_the_table_says_never(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WORDS, "--into", "2", "--redeal", "never"]) == 0
    out = capsys.readouterr().out
    assert "never" in out
    assert "bound occ-lp-at-most" in out
    assert "seed 1, 2 replications of 2000 steps" in out


def test_the_page_has_both_charts_and_every_row(tmp_path: Path) -> None:
    path = tmp_path / "split.html"
    assert run([*WORDS, "--into", "1,2,4", "--tries", "1,2", "--report", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    for part in ("split-reward", "split-blocking", "Split into 4 sub-pools, LAG earns", "asks 2"):
        assert part in text
    assert run([*WORDS, "--into", "1", "--report", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert "LAG with one owner earns" in text
    assert "split-reward" not in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--redeal", "1e3"], "whole numbers or never"),
        (["--redeal", "0"], "redeal: 0"),
        (["--into", "two"], "--into"),
        (["--into", "16"], "Split into at most 8"),
        (["--tries", ""], "--tries"),
    ],
)
def test_bad_options_are_told(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, *words]) == 1
    assert told in capsys.readouterr().err
