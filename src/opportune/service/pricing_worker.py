"""The process that prices plans for a node: ``python -m opportune.service.pricing_worker``.

It reads jobs from its standard input and writes how far it is, and what came of it, to its standard
output (``pricing_process`` for the other end). It is modest: other processes go first, and it is
the one to end where memory runs out. It ends with its input, so with the node, whatever became of
that; a signal that the node gets as well (Ctrl-C, the end of a service) is the node's business.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from io import FileIO
from pathlib import Path

from opportune.errors import OpportuneError
from opportune.service.messages import DONE, FAILED, PROGRESS, WRONG, Parts, receive, send
from opportune.service.plan_runs import price_job

NICE = 5
"""By how much other processes go first: beside a busy one it gets a quarter of a core."""

SACRIFICE = "500"
"""Of 1000: how readily Linux ends this process where memory runs out."""

TELL_EVERY = 0.05
"""Seconds between two messages about the same step."""


def main() -> None:
    """Price what is asked for until the input ends."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    if sys.platform != "win32":
        os.nice(NICE)
    with suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text(SACRIFICE, encoding="ascii")
    out = FileIO(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no message
    jobs: queue.SimpleQueue[Parts] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    while True:
        _price(jobs.get(), out)


def _read(jobs: queue.SimpleQueue[Parts]) -> None:
    """Read jobs, also while one is being priced; without a node there is nothing to do."""
    with suppress(OSError, EOFError):
        pipe = FileIO(0, closefd=False)
        while True:
            jobs.put(receive(pipe)[1])
    os._exit(0)


def _price(asked: Parts, out: FileIO) -> None:
    """One job; says how far it is, then what came of it."""
    told, last = "", 0.0

    def tell(gap: float, step: str) -> None:
        nonlocal told, last
        now = time.monotonic()
        if step != told or now - last >= TELL_EVERY:
            told, last = step, now
            send(out, PROGRESS, [pickle.dumps((gap, step))])

    try:
        state, name, job, now = pickle.loads(asked[0], buffers=asked[1:])
        made = price_job(state, name, (job, tell, now))
    except OpportuneError as error:
        send(out, FAILED, [pickle.dumps(error)])
    except Exception:
        send(out, WRONG, [traceback.format_exc().encode()])
    else:
        tables: list[pickle.PickleBuffer] = []
        head = pickle.dumps(made, 5, buffer_callback=tables.append)
        send(out, DONE, [head, *(table.raw() for table in tables)])


if __name__ == "__main__":
    main()
