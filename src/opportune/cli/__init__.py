"""The command line: ``opportune COMMAND``. Commands are imported when they are called.

Exit codes: 0 well, 1 bad input (what to change is printed), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import io
import shlex
import sys

from cyclopts import App, CycloptsError

from opportune import __version__
from opportune.cli.output import Screen, command_line
from opportune.errors import OpportuneError

COMMANDS = {
    "check": ("check:check", "Is an instance well formed, and can its tasks be served?"),
    "plan": ("plan:plan", "Price each server's time: plan, rates and a certified bound."),
    "compare": ("compare:compare", "Which policy earns how much of the best possible reward?"),
    "sweep": ("compare:sweep", "The same over several loads, with --report as a page of pictures."),
    "day": ("day:day", "A day of changing rates and shifts: a plan per period, priced and run."),
    "scale": ("scale:scale", "LAG as the pool grows: copies of each server, random partition."),
    "split": (
        "split:split",
        "What a pool loses when it is split into sub-pools; servers re-dealt.",
    ),
    "queue": ("queue:queue", "Learn success rates while tasks wait: policies beside the oracle."),
    "learn": (
        "learn:learn",
        "Scores hidden behind outcomes: learners beside the known-score plan.",
    ),
    "fit": ("fit:fit", "From a log of what happened to an instance, with how sure it is."),
    "serve": (
        "serve:serve",
        "The live service: decisions over HTTP, nothing acknowledged is lost.",
    ),
    "plans": (
        "plans:plans",
        "Plans of a live pool: make one, try it in the shadow, put it in force.",
    ),
    "explain": ("explain:explain", "Why a decision of the live service came out as it did."),
    "keys": ("keys:keys", "Make, list and revoke the API keys of the live service."),
    "backup": ("backup:backup", "Copy the live service's journal while it runs."),
    "verify": ("verify:verify", "Does a journal give the same decisions again? Is it whole?"),
    "stress": ("stress:stress", "How many durable assignments a second does this machine take?"),
    "log": ("log:log", "What a pool of the service decided and what came of it, as a log."),
    "replay": ("replay:replay", "What would each policy have earned on your own log?"),
    "export": ("export:export", "A log for Vowpal Wabbit or Open Bandit Pipeline."),
    "policies": ("policies:policies", "List the policies."),
    "catalog": ("catalog:catalog", "List the built-in instances."),
    "paper": ("paper:paper", "Reproduce a whole paper: its tables and figures beside ours."),
}
"""Command -> module:function below this package, and one line of help; in this order."""

app = App(
    name="opportune",
    help="Assign arriving tasks to servers that are busy for a while: price, plan, compare.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
for _place, (_name, (_target, _help)) in enumerate(COMMANDS.items()):
    app.command(f"opportune.cli.{_target}", name=_name, help=_help, sort_key=_place)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code.

    A closed stream is replaced by one that swallows everything, and what a terminal's encoding
    cannot show is escaped, so that neither ends a run.
    """
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; the exit code.

    Args:
        arguments: Words after ``opportune``; those of the process if None.
    """
    words = sys.argv[1:] if arguments is None else arguments
    command_line.set(shlex.join(["opportune", *words]))
    errors = Screen(stderr=True, soft_wrap=True, highlight=False)
    try:
        code = app(
            words,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
            console=Screen(),
            error_console=errors,
        )
        sys.stdout.flush()
    except CycloptsError as error:
        errors.print(f"usage error: {error}", style="red", markup=False)
        errors.print("see: opportune --help, opportune COMMAND --help", markup=False)
        return 2
    except OpportuneError as error:
        for line in str(error).splitlines():
            errors.print(f"error: {line}", style="red", markup=False)
        return 1
    except KeyboardInterrupt as error:
        errors.print(f"interrupted: {str(error) or 'nothing was written'}", markup=False)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        sys.stderr.close()
        return 0
    except MemoryError:
        told = "memory: not enough for this; expected a smaller problem. Ask for fewer of what you "
        errors.print(f"error: {told}raised: servers, types, steps or --workers", style="red")
        return 1
    except OSError as error:
        errors.print(f"error: output: {error.strerror or error}", style="red", markup=False)
        return 1
    return code if isinstance(code, int) else 0
