"""The catalog: every number of every entry, and what is said when something is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.model.catalog import catalog, catalog_instance
from opportune.model.duration import Deterministic, Geometric
from opportune.model.files import load_instance
from opportune.model.tables import read_sheet

LOADS = [0.1, 0.7, 0.9]


def test_the_entries_say_what_they_are() -> None:
    entries = {entry.id: entry for entry in catalog()}
    assert list(entries) == [
        "specialist-v1",
        "priority-v1",
        "unfriendly-v1",
        "lowrank-v1",
        "iclr-v1",
        "tmlr-v1",
        "bank-v1",
    ]
    assert [entry.id for entry in catalog() if entry.needs_data] == [
        "iclr-v1",
        "tmlr-v1",
        "bank-v1",
    ]
    assert all(entry.title and entry.source for entry in catalog())


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize(
    "instance_id", ["specialist-v1", "priority-v1", "unfriendly-v1", "lowrank-v1"]
)
def test_an_entry_has_the_load_asked_for(instance_id: str, load: float) -> None:
    one = load_instance(instance_id, load)
    assert one.load == pytest.approx(load, rel=1e-12)
    assert one.name == instance_id
    assert one.one_k == 1
    assert not one.has_forbidden_pairs


def test_specialist() -> None:
    one = catalog_instance("specialist-v1", 0.7)
    assert (one.n_types, one.n_servers) == (6, 7)
    want = np.zeros((6, 7))
    want[:, :2] = 1
    for v in range(5):
        want[v, 2 + v] = 1
    assert np.array_equal(one.match_reward, want)
    assert one.task_types == (
        "routine-1",
        "routine-2",
        "routine-3",
        "routine-4",
        "routine-5",
        "hard",
    )
    assert one.servers[:3] == ("generalist-1", "generalist-2", "specialist-1")
    assert one.arrival_rate[5] == pytest.approx(3 * one.arrival_rate[0])
    assert set(one.duration) == {Geometric(10)}


def test_priority() -> None:
    one = catalog_instance("priority-v1", 0.7)
    assert one.match_reward.tolist() == [[1.8] * 2 + [1.0] * 6, [8.0] * 2 + [0.2] * 6]
    assert one.arrival_rate / one.arrival_rate.sum() == pytest.approx([0.7, 0.3])
    assert one.task_types == ("standard", "priority")
    assert set(one.duration) == {Geometric(20)}


def test_unfriendly() -> None:
    one = catalog_instance("unfriendly-v1", 0.7)
    assert (one.n_types, one.n_servers) == (32, 10)
    patterns = [name.removeprefix("fits-") for name in one.task_types]
    assert patterns == [f"{v:05b}" for v in range(32)]
    for v, pattern in enumerate(patterns):
        want = [1.0 if bit == "1" else 0.01 for bit in pattern] + [0.0] * 5
        assert one.match_reward[v].tolist() == want
    assert np.ptp(one.arrival_rate) == 0
    assert set(one.duration) == {Deterministic(43)}


def test_lowrank() -> None:
    one = catalog_instance("lowrank-v1", 0.7)
    assert one.match_reward[3, 7] == pytest.approx(3 / 9 * 7 / 29)
    assert np.linalg.matrix_rank(one.match_reward) == 1
    assert np.ptp(one.arrival_rate) == 0
    assert set(one.duration) == {Deterministic(43)}


@pytest.mark.parametrize("instance_id", ["specialist-v1", "lowrank-v1"])
def test_without_a_load_the_message_names_the_option(instance_id: str) -> None:
    with pytest.raises(InputError, match=r"load: not given.*--load 0\.7"):
        load_instance(instance_id)


def test_an_unknown_id_lists_the_ids_and_says_what_a_path_is() -> None:
    with pytest.raises(InputError) as caught:
        load_instance("speciallist-v1", 0.7)
    text = str(caught.value)
    assert all(entry.id in text for entry in catalog())
    assert "ending in .toml" in text
    assert "Did you mean 'specialist-v1'?" in text


@pytest.mark.parametrize(
    ("instance_id", "expected"),
    [
        ("priority-v1@0", "no samples"),
        ("bank-v1@2", "no samples"),
        ("iclr-v1@10", "iclr-v1@0 to iclr-v1@9"),
        ("iclr-v1@-1", "iclr-v1@0 to iclr-v1@9"),
        ("iclr-v1@", "iclr-v1@0 to iclr-v1@9"),
        ("tmlr-v1@x", "a whole number"),
        ("tmlr-v1@" + "9" * 5000, "a whole number"),
        ("", "an id of the catalog"),
    ],
)
def test_a_sample_that_does_not_exist_is_refused(instance_id: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        load_instance(instance_id, 0.7)


@pytest.mark.parametrize("instance_id", ["iclr-v1@3", "tmlr-v1", "bank-v1"])
def test_without_the_data_folder_the_message_names_the_variable(
    instance_id: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("OPPORTUNE_DATA", raising=False)
    with pytest.raises(InputError, match=f"OPPORTUNE_DATA: not set.*{instance_id}"):
        load_instance(instance_id, 0.7)
    monkeypatch.setenv("OPPORTUNE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"OPPORTUNE_DATA: .* has no file \w+/\w+\.\w+"):
        load_instance(instance_id, 0.7)


# ------------------------------------------------------------------------------- with data


def test_iclr_is_a_sample_divided_by_its_maximum(data: Path) -> None:
    with np.load(data / "iclr2018" / "sub_10x30.npz") as arrays:
        samples = arrays["S"]
    for i in range(10):
        one = load_instance(f"iclr-v1@{i}", 0.7)
        assert np.array_equal(one.match_reward, samples[i] / samples[i].max())
        assert one.one_k == 3
    assert load_instance("iclr-v1", 0.7) == load_instance("iclr-v1@0", 0.7)
    assert load_instance("iclr-v1", 0.7) != load_instance("iclr-v1@1", 0.7)
    assert load_instance("iclr-v1", 0.7).mean_duration == pytest.approx([43.5] * 10, abs=0.05)


def test_tmlr_is_thirty_columns_of_the_file(data: Path) -> None:
    lines = (data / "tmlr" / "similarity_10x60.csv").read_text().split()
    scores = np.array([[float(cell) for cell in line.split(",")[1:]] for line in lines[1:]])
    columns = np.sort(np.random.default_rng(4).choice(60, 30, replace=False))
    one = load_instance("tmlr-v1@4", 0.7)
    want = scores[:, columns]
    assert np.array_equal(one.match_reward, want / want.max())
    assert one.servers == tuple(f"reviewer-R{c:02d}" for c in columns)
    assert one.task_types[2] == "paper-160"
    assert one.load == pytest.approx(0.7)


def test_bank_has_the_score_its_readme_states(data: Path) -> None:
    one = load_instance("bank-v1", 0.1)
    assert (one.n_types, one.n_servers, one.one_k) == (6, 31, 1)
    assert one.name == "bank-v1"
    assert one.match_reward.max() == 1.0
    folder = data / "anonymous_bank"
    sheet = read_sheet("x", folder / "types.csv", "types.csv").with_header("x")
    calls = sheet.numbers("x", 1)
    assert one.arrival_rate / one.arrival_rate.sum() == pytest.approx(calls / calls.sum())
    # unscaled: IN by A01 has 32 calls of 187.06 s, all IN calls 381.759 s: more than twice as fast
    fast = (32 * 2.0 + 15) / 62
    slow = (79 * 381.759 / 2212.06 + 15) / 109  # A03
    ratio = one.match_reward[0, 2] / one.match_reward[0, 0]
    assert ratio == pytest.approx(slow / fast, rel=1e-12)
    unseen = one.match_reward[3, 0]  # PE was never taken by A01
    assert unseen / one.match_reward[0, 0] == pytest.approx(0.5 / fast, rel=1e-12)
    assert one.mean_duration == pytest.approx([10.454, 8.4389, 4.3921, 10.3238, 6.1824, 4.45], 1e-4)


def test_bank_shortens_its_step_where_more_than_one_call_would_arrive(data: Path) -> None:
    """31 agents at load 0.9 take 4.3 calls in 30 s; a step has room for one."""
    coarse, fine = load_instance("bank-v1", 0.2), load_instance("bank-v1", 0.9)
    assert coarse.name == "bank-v1"
    assert fine.name == "bank-v1 (steps of 3.33 s)"
    assert fine.load == pytest.approx(0.9)
    assert fine.arrival_rate.sum() <= 0.5
    assert fine.mean_duration == pytest.approx(9 * coarse.mean_duration)
    assert np.array_equal(fine.match_reward, coarse.match_reward)
    for load in np.arange(0.1, 0.95, 0.1):
        assert load_instance("bank-v1", float(load)).load == pytest.approx(load)
    for load in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="load: "):
            load_instance("bank-v1", load)
