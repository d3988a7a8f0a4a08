"""A process beside the node that prices its large plans (``pricing_worker`` is what runs there).

Pricing a large pool takes a core for seconds. In the node's own process it would share with
decisions the interpreter's lock, and the time that the system gives to the process. The process is
started for the first large plan and kept for the next one, until it has been idle for a while. To
cancel a plan is to end it.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from io import FileIO
from typing import cast

from opportune.errors import OpportuneError, Problem
from opportune.service.drifting import baseline
from opportune.service.messages import DONE, FAILED, JOB, PROGRESS, Parts, receive, send
from opportune.service.peaks import peak_memory
from opportune.service.plan_jobs import PlanJob
from opportune.service.plan_runs import Made, PlanCanceledError, Run
from opportune.service.state import State

if sys.platform == "linux":
    import fcntl

KEPT_SECONDS = 60.0
"""How long an idle process is kept: it holds memory, and starting one takes more than a second."""

COMMAND = (sys.executable, "-P", "-m", "opportune.service.pricing_worker")

ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals that are sent to all of a service: to this process as well, which ignores them later."""

LOW_PRIORITY = int(getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0))
"""For Windows; elsewhere the process sees to it itself."""


PIPE = 1024 * 1024
"""Bytes that a pipe holds: each read of it asks for the interpreter's lock once."""


class PricingProcess:
    """At most one process. All methods are called by the planner's thread.

    Attributes:
        memory: Largest resident memory of the process up to its latest plan, in bytes; 0 without
            a process, or where the system does not tell.
    """

    def __init__(self) -> None:
        self.memory = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._used = 0.0

    @property
    def is_there(self) -> bool:
        """Whether a process runs, or did when it was asked last."""
        return self._process is not None

    def price(self, state: State, name: str, how: tuple[PlanJob, Run, float]) -> Made:
        """As ``plan_runs.price_job``, which this process runs elsewhere.

        Raises:
            PlanCanceledError: If nobody wants the plan any more, or the service is ending.
            OpportuneError: If no plan comes of it, or the process ended.
        """
        job, run, now = how
        process = self._running()
        run.interrupt = process.kill
        try:
            kind, parts = _asked(process, (_needed(state), name, job, now), run)
        except PlanCanceledError:
            self.end()
            raise
        except (OSError, EOFError) as error:
            code = process.wait()
            self.end()
            if run.canceled.is_set() or -code in ENDING:
                raise PlanCanceledError from error
            told = f"the process that priced it ended with code {code}"
            remedy = "see whether there was enough memory"
            raise OpportuneError(Problem("plan", told, "it to finish", remedy)) from error
        finally:
            run.interrupt = None
            self._used = time.monotonic()
        if kind == FAILED:
            raise pickle.loads(parts[0])
        if kind != DONE:
            raise RuntimeError(bytes(parts[0]).decode())
        self.memory = peak_memory(process.pid) or 0
        return cast(Made, pickle.loads(parts[0], buffers=parts[1:]))

    def rest(self) -> None:
        """Let the process go if it has been idle for long."""
        if time.monotonic() - self._used > KEPT_SECONDS:
            self.end()

    def end(self) -> None:
        """End the process, whatever it does."""
        process, self._process, self.memory = self._process, None, 0
        if process is not None:
            process.kill()
            for pipe in _pipes(process):
                pipe.close()
            process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = subprocess.Popen(
                COMMAND,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                creationflags=LOW_PRIORITY,
            )
            if sys.platform == "linux":
                for pipe in _pipes(self._process):
                    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)
        return self._process


def _asked(
    process: subprocess.Popen[bytes], job: tuple[State, str, PlanJob, float], run: Run
) -> tuple[int, Parts]:
    """What the process says in the end; how far it is goes to the run."""
    into, out = _pipes(process)
    tables: list[pickle.PickleBuffer] = []
    head = pickle.dumps(job, 5, buffer_callback=tables.append)
    send(into, JOB, [head, *(table.raw() for table in tables)])
    while True:
        if run.canceled.is_set():  # before it could be interrupted
            raise PlanCanceledError
        kind, parts = receive(out)
        if kind != PROGRESS:
            return kind, parts
        run.tell(*pickle.loads(parts[0]))


def _pipes(process: subprocess.Popen[bytes]) -> tuple[FileIO, FileIO]:
    """Its input and its output, which are not buffered."""
    return cast(FileIO, process.stdin), cast(FileIO, process.stdout)


def _needed(state: State) -> State:
    """The copy of a pool with no more plans than pricing looks at: they are large."""
    kept = {plan.id for plan in (baseline(state),) if plan is not None}
    kept |= set([name for name, plan in state.plans.items() if plan.source == "priors"][-1:])
    state.plans = {name: plan for name, plan in state.plans.items() if name in kept}
    return state
