"""``opportune plans``: make, compare and change the plans of a pool of the live service."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from opportune.cli.connecting import THIS_MACHINE, Service
from opportune.cli.extras import missing_package
from opportune.cli.options import FORMAT_HELP, Format, Number
from opportune.cli.output import print_csv, print_json, print_note, print_table, progress_bar
from opportune.errors import OpportuneError, Problem

try:
    from opportune.client.blocking import Client
    from opportune.service.api.bodies import NewPlan
    from opportune.service.plan_bodies import EstimateBody, PlanBody
except ModuleNotFoundError as error:
    raise missing_package(error, "opportune plans") from error

COLUMNS = (
    "plan",
    "state",
    "policy",
    "bound_per_second",
    "gap",
    "decisions",
    "disagreement",
    "score",
    "at_active_prices",
    "at_shadow_prices",
    "verdict",
)
"""From ``decisions`` on: what came of the latest stay in the shadow, per decision."""

CLOSED = 1e-9
"""A gap below it is rounding."""

LOOK_EVERY = 0.2
"""Seconds between two looks at a plan that is being made."""

Pool = Annotated[str, Parameter(help="The pool.")]
Plan = Annotated[str, Parameter(help="The plan.")]

plans = App(name="plans", help_format="plaintext")


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """Which plan is made, and what becomes of it."""

    name: Annotated[str | None, Parameter(help="Its id; by default plan-1, plan-2, ...")] = None
    policy: Annotated[str, Parameter(help="Which policy reads the prices.")] = "lag"
    then: Annotated[Literal["draft", "shadow", "active"], Parameter(help="What becomes of it.")] = (
        "draft"
    )
    rates: Annotated[
        Literal["declared", "measured"],
        Parameter(help="Arrival rates: the task types' own, or those counted lately."),
    ] = "declared"
    seconds: Annotated[Number, Parameter(help="Most seconds for pricing.")] = 600.0

    def asked(self) -> NewPlan:
        """The same for the service, which answers at once."""
        return NewPlan(
            id=self.name,
            policy=self.policy,
            activate=self.then == "active",
            shadow=self.then == "shadow",
            wait=False,
            rates=self.rates,
            seconds=self.seconds,
        )


ORDINARY = Wanted()


@plans.command(name="list")
def list_plans(
    pool: Pool,
    /,
    *,
    service: Service = THIS_MACHINE,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> None:
    """List the plans, and what each would have done while it was in the shadow."""
    with service.client() as client:
        _print(pool, client.list_plans(pool), format)


@plans.command
def make(
    pool: Pool,
    /,
    *,
    wanted: Wanted = ORDINARY,
    service: Service = THIS_MACHINE,
    format: Annotated[Format, Parameter(help=FORMAT_HELP)] = "table",
) -> None:
    """Price the pool in the background and make a plan; wait for it. Decisions go on meanwhile."""
    with service.client() as client:
        body = client.make_plan(pool, wanted.asked())
        try:
            body = _followed(client, pool, body)
        except KeyboardInterrupt as error:
            told = f"it is still being made; opportune plans cancel {pool} {body.id} ends that"
            raise KeyboardInterrupt(told) from error
        if body.state in ("failed", "canceled"):
            told = body.detail or body.state
            raise OpportuneError(Problem("plan", told, "a pool that can be priced"))
        _print(pool, [body], format)


def _followed(client: Client, pool: str, body: PlanBody) -> PlanBody:
    """The plan once it is made, or comes to nothing."""
    with progress_bar(f"pricing {pool}") as progress:
        while body.state == "pricing":
            time.sleep(LOOK_EVERY)
            known = {one.id: one for one in client.list_plans(pool)}  # without their large tables
            body = known.get(body.id) or client.get_plan(pool, body.id)
            if body.progress is not None:
                gap = body.progress.gap
                share = 0.0 if gap is None else 1.0 - min(gap, 1.0)
                told = body.progress.step + ("" if gap is None else f", gap {gap:.1e}")
                progress(share, told)
    return body


@plans.command
def shadow(pool: Pool, plan: Plan, /, *, service: Service = THIS_MACHINE) -> None:
    """Let a plan decide beside the active one: noted in every decision, not done."""
    with service.client() as client:
        client.shadow_plan(pool, plan)
    print_note(f"in the shadow of {pool}: {plan}")


@plans.command
def unshadow(pool: Pool, /, *, service: Service = THIS_MACHINE) -> None:
    """No plan decides beside the active one any more."""
    with service.client() as client:
        client.unshadow_plan(pool)
    print_note(f"nothing in the shadow of {pool}")


@plans.command
def activate(pool: Pool, plan: Plan, /, *, service: Service = THIS_MACHINE) -> None:
    """Put a plan in force."""
    with service.client() as client:
        client.activate_plan(pool, plan)
    print_note(f"in force in {pool}: {plan}")


@plans.command
def rollback(pool: Pool, /, *, service: Service = THIS_MACHINE) -> None:
    """Put the plan in force that was before the present one."""
    with service.client() as client:
        body = client.rollback_plan(pool)
    print_note(f"in force again in {pool}: {body.id}")


@plans.command
def cancel(pool: Pool, plan: Plan, /, *, service: Service = THIS_MACHINE) -> None:
    """Do not make a plan that is being priced."""
    with service.client() as client:
        client.cancel_plan(pool, plan)
    print_note(f"canceled in {pool}: {plan}")


def _print(pool: str, bodies: Sequence[PlanBody], format: Format) -> None:
    if format == "json":
        found = [msgspec.json.encode(_plain(body)) for body in bodies]
        print_json({"pool": pool, "plans": [json.loads(one) for one in found]})
        return
    rows = [_row(body, format == "table") for body in bodies]
    if format == "csv":
        print_csv(COLUMNS, rows)
        return
    shown = [name.replace("_", " ") for name in COLUMNS]
    print_table(f"plans of {pool}", shown, [[str(cell) for cell in row] for row in rows])
    for body in bodies:
        told = body.reason or body.detail
        if told:
            print(f"{body.id}: {told}")


def _plain(body: PlanBody) -> PlanBody:
    """Without the tables of a plan that was asked for one by one."""
    return PlanBody(**{name: getattr(body, name) for name in PlanBody.__struct_fields__})


def _row(body: PlanBody, for_people: bool) -> tuple[object, ...]:
    stay = body.in_shadow
    found: list[object] = [body.id, body.state, body.policy, body.bound, body.gap]
    if stay is None:
        found += [None] * 6
    else:
        estimates = (stay.score, stay.at_active_prices, stay.at_shadow_prices)
        found += [stay.decisions, stay.disagreement]
        found += [_interval(one) if for_people else one.mean for one in estimates]
        found += [stay.verdict]
    if for_people and body.gap is not None and body.gap <= CLOSED:
        found[4] = f"< {CLOSED:g}"
    return tuple(_cell(cell) for cell in found) if for_people else tuple(found)


def _interval(one: EstimateBody) -> str | None:
    if one.mean is None:
        return None
    width = "" if one.half_width is None else f" ± {one.half_width:.2g}"
    return f"{one.mean:.4g}{width}"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
