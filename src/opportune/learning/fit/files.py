"""What a fit leaves behind: an instance file with its provenance, scores, and a record.

``instance.toml`` is taken by every command; ``scores.csv`` has a row per pair with its interval;
``fit.json`` has all estimates; ``contexts.npz`` what turns the context of a new task into its type
and scores. The files hold no time of day, so equal logs give equal files.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import __version__
from opportune.learning.fit.drift import Drift
from opportune.learning.fit.instance import Fit
from opportune.learning.fit.presence import absences
from opportune.model.day import Day
from opportune.model.saving import day_files, instance_files
from opportune.model.writing import npz_bytes, put_all

SCHEMA = 1
"""Version of ``fit.json``."""

FIT_FILES = ("instance.toml", "scores.csv", "fit.json")
"""What every fit writes, the instance first."""

SCORE_COLUMNS = ("task", "server", "score", "low", "high", "outcomes", "mean", "services")


def write_fit(fit: Fit, folder: str | Path, command: str = "", shares: bool = False) -> list[Path]:
    """Write the files of a fit.

    Args:
        fit: The fit.
        folder: Where to; it is made, files of these names are replaced.
        command: The command line, for the provenance.
        shares: Whether servers get the share of time that they were seen at work.

    Returns:
        The files, the instance first.

    Raises:
        InputError: If the folder cannot be written to.
    """
    folder = Path(folder)
    made = [folder / name for name in FIT_FILES]
    day = fitted_day(fit, shares)
    if day is not None:
        files = day_files(day, made[0])
    elif shares and fit.presence is not None:
        files = instance_files(replace(fit.instance, availability=fit.presence[0]), made[0])
    else:
        files = instance_files(fit.instance, made[0])
    files[made[0]] = _header(fit, command).encode() + files[made[0]]
    files[made[1]] = _scores_csv(fit).encode()
    record = json.dumps(fit_record(fit), indent=1, allow_nan=False, ensure_ascii=False)
    files[made[2]] = f"{record}\n".encode()
    if fit.log.context is not None:
        made.append(folder / "contexts.npz")
        files[made[-1]] = npz_bytes(_context_arrays(fit))
    put_all(files)
    return made


def score_rows(fit: Fit) -> list[tuple[Any, ...]]:
    """A row per pair: score, interval, outcomes, their mean, services."""
    instance, table = fit.instance, fit.table
    raw = None if fit.scores is None else fit.scores.table.raw
    return [
        (
            instance.task_types[v],
            instance.servers[r],
            float(instance.match_reward[v, r]),
            None if table is None else float(table.low[v, r]),
            None if table is None else float(table.high[v, r]),
            int(fit.pair_count[v, r]),
            None if raw is None or not fit.pair_count[v, r] else float(raw[v, r]),
            int(fit.assigned[v, r]),
        )
        for v, r in np.argwhere(instance.allowed)
    ]


def fit_record(fit: Fit) -> dict[str, Any]:
    """All estimates as JSON without NaN: rows by ``task_types``, columns by ``servers``."""
    instance = fit.instance
    return {
        "schema": SCHEMA,
        "version": __version__,
        "instance": instance.name,
        "log": _log(fit),
        "task_types": list(instance.task_types),
        "servers": list(instance.servers),
        "servers_per_task": instance.servers_per_task.tolist(),
        "load": instance.load,
        "step": {
            "length": fit.step.length,
            "reason": fit.step.reason,
            "peak_arrivals": float(fit.step.peak),
            "durations_longer": float(fit.step.lengthened),
            "arrivals_sharing": float(fit.step.shared),
        },
        "arrival_rate": {
            "value": fit.arrivals.rate.tolist(),
            "low": fit.arrivals.low.tolist(),
            "high": fit.arrivals.high.tolist(),
            "tasks": fit.arrivals.count.tolist(),
        },
        "profile": _profile(fit),
        "mean_duration": _durations(fit),
        "score": _score(fit),
        "task_types_made": None
        if fit.clusters is None
        else [
            {"types": count, "loss": loss, "standard_error": error}
            for count, (loss, error) in fit.clusters.losses.items()
        ],
        "on_duty": None if fit.presence is None else fit.presence.mean(axis=0).tolist(),
        "drift": [_drift(fit, test) for test in fit.drift],
        "cautions": list(fit.cautions),
        "findings": list(fit.findings),
        "seed": fit.settings.seed,
    }


def finite(value: float | None) -> float | None:
    """The number, None if it is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def _log(fit: Fit) -> dict[str, Any]:
    log = fit.log
    return {
        "file": log.name,
        "sha256": log.digest,
        "rows": log.n_rows,
        "tasks": log.n_tasks,
        "services": len(log.task),
        "outcomes": int(np.isfinite(log.outcome).sum()),
        "day": log.day,
    }


def _durations(fit: Fit) -> dict[str, Any]:
    types, by_server = fit.services.types, fit.services.by_server
    return {
        "value": [one.mean for one in types],
        "low": [one.low for one in types],
        "high": [finite(one.high) for one in types],
        "law": [type(one.law).__name__.lower() for one in types],
        "ended": [one.n for one in types],
        "censored": [one.censored for one in types],
        "beyond": [one.beyond for one in types],
        "own_weight": [one.weight for one in types],
        "servers_differ": finite(fit.services.p_servers),
        "by_server": None if by_server is None else by_server.mean.tolist(),
        "by_server_used": fit.instance.server_duration is not None,
    }


def _drift(fit: Fit, test: Drift) -> dict[str, Any]:
    return {
        "what": test.what,
        "values": test.n,
        "p_value": test.p_value,
        "place": test.place,
        "before": test.before,
        "after": test.after,
        "noticed": test in fit.drifted,
    }


def _profile(fit: Fit) -> dict[str, Any] | None:
    arrivals = fit.arrivals
    if arrivals.multiplier is None or arrivals.raw is None:
        return None
    return {
        "period_steps": arrivals.period_steps,
        "multiplier": arrivals.multiplier.tolist(),
        "unshrunk": arrivals.raw.tolist(),
        "strength": finite(arrivals.strength),
        "p_value": finite(arrivals.p_profile),
        "dispersion": arrivals.dispersion,
    }


def _score(fit: Fit) -> dict[str, Any]:
    value = fit.instance.match_reward.tolist()
    if fit.scores is None:
        made = {"kind": fit.settings.score, "value": value, "outcomes": fit.pair_count.tolist()}
        if fit.speeds is None:
            return made
        return {**made, "low": fit.speeds.low.tolist(), "high": fit.speeds.high.tolist()}
    scores, calibration = fit.scores, fit.scores.calibration
    return {
        "kind": "outcome",
        "model": scores.model,
        "value": value,
        "low": scores.table.low.tolist(),
        "high": scores.table.high.tolist(),
        "outcomes": scores.table.count.tolist(),
        "strength": scores.table.strength,
        "held_out": [
            {"model": model, "loss": loss, "standard_error": error}
            for model, (loss, error) in scores.losses.items()
        ],
        "calibration": None
        if calibration is None
        else {
            "predicted": calibration.predicted.tolist(),
            "observed": calibration.observed.tolist(),
            "slope": calibration.slope,
            "slope_error": calibration.slope_error,
            "squared_error": calibration.error,
            "recalibrated": scores.recalibrated,
        },
    }


def _header(fit: Fit, command: str) -> str:
    log = fit.log
    lines = [
        f"Fitted by opportune {__version__} to {log.name} (sha256 {log.digest}): "
        f"{log.n_tasks} tasks, {len(log.task)} services; seed {fit.settings.seed}.",
        f"One step is {fit.step.length:g} of the log's units of time: {fit.step.reason}.",
        f"Scores: {_kind(fit)}. Intervals are in scores.csv, everything else in fit.json.",
    ]
    if command:
        lines.append(f"Command: {command}")
    lines += [f"Caution: {text}" for text in fit.cautions]
    return "".join(f"# {_printable(line)}\n" for line in lines)


def _kind(fit: Fit) -> str:
    if fit.scores is None:
        return "1 for all" if fit.settings.score == "none" else "speed, a score that was made up"
    return f"outcomes, model '{fit.scores.model}'"


def _printable(text: str) -> str:
    """Comments of TOML hold no control characters."""
    return "".join(one if one.isprintable() else " " for one in text)


def fitted_day(fit: Fit, shares: bool) -> Day | None:
    """The day of a fit with a profile; with ``shares`` servers are there as they were seen."""
    arrivals = fit.arrivals
    if arrivals.multiplier is None:
        return None
    off_duty = np.zeros((0, 3), dtype=np.int64)
    if shares and fit.presence is not None:
        off_duty = absences(fit.presence, arrivals.period_steps)
    names = tuple(period_names(len(arrivals.multiplier)))
    return Day(fit.instance, arrivals.period_steps, arrivals.multiplier, off_duty, names)


def period_names(n: int) -> list[str]:
    """``00:00``, ``01:00``, ...: when each period of a day of 24 hours begins."""
    minutes = [round(p * 24 * 60 / n) for p in range(n)]
    names = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in minutes]
    return names if len(set(names)) == n else [f"period-{p + 1}" for p in range(n)]


def _scores_csv(fit: Fit) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(SCORE_COLUMNS)
    writer.writerows(score_rows(fit))
    return stream.getvalue()


def _context_arrays(fit: Fit) -> dict[str, NDArray[Any]]:
    """What turns contexts into types (nearest center) and scores (weights), if they do."""
    arrays: dict[str, NDArray[Any]] = {"columns": np.array(fit.log.contexts)}
    features = None if fit.scores is None else fit.scores.features
    scaling = fit.clusters.scaling if fit.clusters is not None else None
    if features is not None:
        scaling = features.scaling
        arrays["joint_weight"] = features.joint.weight
        arrays["recalibration"] = np.array([features.shift, features.slope])
        if features.own:
            arrays["server_weight"] = np.stack([one.weight for one in features.own])
    if fit.clusters is not None:
        arrays["type_center"] = fit.clusters.center
    if scaling is not None:
        arrays |= {"center": scaling.center, "spread": scaling.spread}
        arrays["reach"] = np.array(scaling.reach)
    return arrays
