"""What the numbers of the dashboard mean: every one has a label, a unit and a sentence."""

from __future__ import annotations

import math
from typing import NamedTuple

from opportune.markup import Html, element, joined


class Figure(NamedTuple):
    """A kind of number.

    Attributes:
        label: What it is, a few words.
        unit: What it is counted in.
        meaning: A sentence or two for a person who sees it for the first time.
        percent: Whether it is a share, shown in percent.
    """

    label: str
    unit: str
    meaning: str
    percent: bool = False


def number(name: str, value: float | None) -> Html:
    """A number with its unit and what it means; a dash where there is none.

    Args:
        name: Key of ``FIGURES``.
        value: The number; None if there is none.
    """
    figure = FIGURES[name]
    if value is None or not math.isfinite(value):
        told = f"{figure.meaning} Here there is none."
        return element(
            "span", joined(["–", _hidden(" none")], ""), class_="none", title=told, data_figure=name
        )
    shown = percent(value) if figure.percent else plain(value)
    one = _SINGULAR.get(figure.unit, figure.unit) if value == 1 else figure.unit
    unit = element("span", f" {one}", class_="unit")
    return element(
        "data",
        joined([shown, unit], ""),
        value=repr(float(value)),
        class_="number",
        title=figure.meaning,
        data_figure=name,
    )


def term(name: str) -> Html:
    """The label of a kind of number, as a button that tells what it means."""
    figure = FIGURES[name]
    return told(figure.label, f"{figure.meaning} Unit: {figure.unit}.")


def told(label: str, meaning: str) -> Html:
    """A label as a button that tells what it means when it is pointed at, focused or touched."""
    return element("button", label, type="button", class_="term", data_tip=meaning)


def plain(value: float) -> str:
    """A number in four significant digits, whole numbers in full, thousands apart."""
    if value == round(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.4g}"
    return text if "e" in text else text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A share in percent; a tiny one is only said to be below."""
    return "<0.0001" if 0 < share < 1e-6 else plain(100 * share)


def moment(seconds: float) -> Html:
    """A time of the pool's clock; the page shows it as the reader's own time of day."""
    return element(
        "time",
        f"{seconds:.3f} s since 1970",
        data_seconds=repr(seconds),
        title="When, by the node's clock, shown in your time zone.",
    )


def name_of(text: str, kind: str = "name") -> Html:
    """A name somebody gave: text and nothing else, its digits no figures."""
    return element("span", text, class_=kind, dir="auto")


def _hidden(text: str) -> Html:
    return element("span", text, class_="hidden")


_SINGULAR = {"servers": "server", "slots": "slot", "tasks": "task"}
"""Units of one thing."""

_STATE = "Each server counts once. "

FIGURES: dict[str, Figure] = {
    "servers": Figure("Servers", "servers", "Servers in the pool, whatever their state."),
    "free": Figure(
        "Free",
        "servers",
        _STATE + "Takes tasks and has a slot free: it can be picked now.",
    ),
    "offered": Figure(
        "Offered", "servers", _STATE + "Was offered a task and has not answered; counts as busy."
    ),
    "busy": Figure("Busy", "servers", _STATE + "Serves, and has no slot free."),
    "wrapping": Figure(
        "Wrapping up", "servers", _STATE + "Has completed its task; its wrap-up time is running."
    ),
    "reserved": Figure(
        "Reserved", "servers", _STATE + "Kept free for a task that has waited too long."
    ),
    "quarantined": Figure(
        "Quarantined",
        "servers",
        _STATE + "Gets no offers for a while: several of its assignments in a row timed out, "
        "failed or were lost.",
    ),
    "drained": Figure("Drained", "servers", _STATE + "Finishes what it has and takes nothing new."),
    "away": Figure(
        "Away", "servers", _STATE + "Not available, or its heartbeat is missing: gets no offers."
    ),
    "slots": Figure("Slots", "slots", "Tasks that all servers together can serve at once."),
    "slots_open": Figure("Slots held", "slots", "Slots that an assignment holds now."),
    "server_slots": Figure("Slots held", "slots", "Slots of this server that are held now."),
    "capacity": Figure("Capacity", "slots", "Tasks that this server can serve at once."),
    "strikes": Figure(
        "Strikes",
        "in a row",
        "Assignments of this server in a row that timed out, failed or were lost. Enough of them "
        "put it into quarantine.",
    ),
    "tasks_open": Figure(
        "Tasks open", "tasks", "Tasks that are not over: they wait, are offered, or are served."
    ),
    "tasks_waiting": Figure(
        "Tasks waiting", "tasks", "Tasks in the queue. In loss mode there is none."
    ),
    "created": Figure("Tasks created", "tasks", "All tasks that ever came in, drops included."),
    "dropped": Figure(
        "Tasks dropped",
        "tasks",
        "Tasks that found fewer permitted servers free than they need (loss mode).",
    ),
    "done": Figure("Tasks done", "tasks", "Tasks that were completed."),
    "blocked": Figure(
        "Blocked", "% of tasks", "Dropped tasks over all tasks since the pool was created.", True
    ),
    "reward": Figure(
        "Reward reported",
        "reward",
        "Sum of the outcomes that were reported, each by its latest revision.",
    ),
    "capacity_mismatch": Figure(
        "Ledger mismatch",
        "slots",
        "Slots by the ledger against slots by the tasks. Anything but zero is a fault of the "
        "service: report it.",
    ),
    "position": Figure("Position", "in line", "Place in the queue; the first one is tried first."),
    "wait": Figure("Wait", "s", "Seconds since the task was created."),
    "k": Figure("Needs", "servers", "Different servers that the task needs at once."),
    "priority": Figure(
        "Priority",
        "reward",
        "Added to the index when the queue is ordered; as given by the caller.",
    ),
    "kept": Figure("Kept for it", "servers", "Freed servers that are kept for this task."),
    "left": Figure("Time left", "s", "Seconds until the task expires unless it is in service."),
    "plan_age": Figure("In force for", "s", "Seconds since the active plan was put in force."),
    "bound": Figure(
        "Bound",
        "reward/s",
        "Certified upper bound on the reward per second that any policy can earn at the arrival "
        "rates and durations that the plan was made for.",
    ),
    "gap": Figure(
        "Gap of the bound",
        "%",
        "How far the bound can at most be above the best value of the linear program.",
        True,
    ),
    "bound_ratio": Figure(
        "Reward over bound",
        "% of the bound",
        "Score of all picks per second, over the bound of the plan in force, in the time shown. "
        "Over a short time chance alone can lift it above a hundred.",
        True,
    ),
    "shadow_decisions": Figure(
        "Decisions compared",
        "decisions",
        "Decisions that picked servers while the plan decided beside the active one.",
    ),
    "gain": Figure(
        "Mean",
        "reward/decision",
        "What the shadow's picks are worth minus what the picks are worth, in the mean. With the "
        "right prices: what a decision would gain if the shadow took over.",
    ),
    "half_width": Figure(
        "Half-width",
        "reward/decision",
        "Half of the interval that holds the true mean with a probability of ninety-five percent.",
    ),
    "disagreement": Figure(
        "Shadow disagreement",
        "% of decisions",
        "Share of decisions in which the shadow plan would have picked other servers.",
        True,
    ),
    "score": Figure("Score", "reward", "Match reward of the task's type and this server."),
    "score_sum": Figure("Score", "reward", "Sum of the match rewards of the picked servers."),
    "index": Figure(
        "Index",
        "reward",
        "What the plan orders by: score minus opportunity cost. Higher is better.",
    ),
    "opportunity_cost": Figure(
        "Opportunity cost",
        "reward",
        "What the server's time is worth elsewhere: demand price plus capacity price times "
        "duration.",
    ),
    "demand_part": Figure(
        "of it demand",
        "reward",
        "Demand price of the task's type: it is the same for all servers, so it shifts the index "
        "and does not change the order.",
    ),
    "capacity_part": Figure(
        "of it capacity",
        "reward",
        "Capacity price of the server times the mean duration: what holding this server for that "
        "long is worth.",
    ),
    "busy_seconds": Figure(
        "Busy for", "s", "Expected seconds of service by this server that the cost counts with."
    ),
    "lost_by": Figure(
        "Runner-up lost by",
        "reward",
        "Index of the last pick minus index of the runner-up. It may be negative where the order "
        "is not by the index: pins, weights, a draw at random.",
    ),
    "capacity_price": Figure(
        "Capacity price", "reward/s", "What a second of this server's time is worth."
    ),
    "demand_price": Figure(
        "Demand price",
        "reward",
        "What serving one more task of this type is worth; it may be negative.",
    ),
    "mean_duration": Figure(
        "Mean duration", "s", "Expected seconds of service that the opportunity cost counts with."
    ),
    "propensity": Figure(
        "Propensity",
        "probability",
        "Probability of this pick, given the free servers and the picks before it.",
    ),
    "n_permitted": Figure("Permitted", "servers", "Servers that the task's type permits."),
    "n_free": Figure(
        "Free for it", "servers", "Permitted servers that were free for this task when it came."
    ),
    "headcount": Figure(
        "Headcount",
        "tasks",
        "Tasks in service as the plan sees it: held slots over servers per task.",
    ),
    "server_group": Figure("Servers", "servers", "Servers that this column stands for."),
    "columns": Figure("Columns", "columns", "Columns of the heat map."),
    "types": Figure("Task types", "types", "Kinds of tasks that are declared."),
    "arrived": Figure("Arrived", "tasks", "Tasks that came in during this time."),
    "lost": Figure("Dropped", "tasks", "Tasks that were dropped during this time."),
    "share": Figure(
        "Blocked", "% of tasks", "Dropped tasks over arrived tasks of this time.", True
    ),
    "theory": Figure(
        "Theory",
        "% of tasks",
        "Erlang-B at the declared rates and durations, with the slots there are: the share of "
        "tasks that every work-conserving policy must drop.",
        True,
    ),
    "rate": Figure("Score", "reward/s", "Score of the picks of this time, per second."),
    "mean_rate": Figure(
        "Mean",
        "reward/s",
        "Score of the picks per second since the start of the time shown, "
        "or since the plan changed.",
    ),
    "listed": Figure("Listed", "rows", "Rows that the table shows; more would make it slow."),
}
"""Every kind of number on the page."""
