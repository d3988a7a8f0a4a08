"""Write ``docs/reference/command-line.md`` from the command line's own help.

Run by ``make docs``. A test fails when the page is not what this would write, so a new command
or option is on the page or the test is red. Only the examples are written here.
"""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path
from typing import Any

from cyclopts import App, Argument

from opportune.cli import COMMANDS, app

PAGE = Path(__file__).parent / "reference" / "command-line.md"

VALUES = {int: "whole number", float: "number", str: "text", Path: "path", bool: ""}
"""What stands behind an option, by its type; nothing behind a switch."""

INTRODUCTION = """\
# Command line

<!-- Written by docs/generate_command_line.py (`make docs`); change the code, not this. -->

`opportune COMMAND --help` prints the same. Without an activated environment write
`.venv/bin/opportune`.

**Instance.** Most commands take one: an [instance file](instance-files.md) or the id
of an instance that is [built in](instance-files.md#instances-that-are-built-in).

**Load.** `--load 0.7` multiplies all arrival rates by one factor so that the servers would be busy
70 % of the time if no task were dropped. It overrides the rates of the file. An instance with
`type_share` and the built-in ones have no rates of their own and need it.

**Output.** The result goes to standard output: a table, or with `--format json` or `csv` for
programs ([what is in it](results.md)). Warnings, notes and the progress bar go to standard error.

**Seeds.** Same instance, options and seed give the same bits, with any `--workers` and `--backend`.

| exit code | meaning |
|---|---|
| 0 | well |
| 1 | the input is wrong or cannot be served; the message says what to change |
| 2 | wrong usage: unknown command or option, missing argument |
| 130 | interrupted |
"""

EXAMPLES = {
    "check": """\
Run it first. It names every problem in the file at once, and the largest load at which every task
can be served.

```sh
opportune check examples/call-center/instance.toml --load 0.7
```
""",
    "plan": """\
No simulation of policies: it solves a linear program and prints prices, rates and the bound. It
stops with exit code 1 where not every task can be served, and says by how much.

```sh
opportune plan priority-v1 --load 0.7
opportune plan priority-v1 --load 0.7 --out out/plan.json
opportune plan priority-v1 --load 0.95 --price-at blocking
```
""",
    "scale": """\
What LAG earns as the pool grows: n copies of each server at each of m dispatchers, dealt out
anew at random in every step (the paper's scaling).

```sh
opportune scale specialist-v1 --load 0.8 --n 1,4,16 --replications 2
```
""",
    "split": """\
A pool too hot for one owner is split: each sub-pool has an owner, a part of the tasks and a part of
the servers, which are dealt anew at random every so many steps. What that costs beside one owner,
and what to do about it: [Beyond one machine](../explanation/scaling.md).

```sh
opportune split priority-v1 --load 0.7 --into 1,2,4 --redeal 20,never
opportune split priority-v1 --load 0.7 --into 2,4 --tries 1,2 --report out/split.html
```
""",
    "catalog": """\
```sh
opportune catalog
```
""",
    "compare": """\
Runs the policies on the same arrivals and sets what they earn beside the bound. Where not every
task can be served it warns, prices at the blocking that occurs and goes on.

```sh
opportune compare priority-v1 --load 0.7
opportune compare priority-v1 --load 0.7 --policies lag,greedy --replications 10 --workers 2
opportune compare priority-v1 --load 0.7 --report out/priority.html
```
""",
    "sweep": """\
One comparison per load, all on the same random numbers. `.1:.9:.1` means .1, .2, ... .9.

```sh
opportune sweep priority-v1 --load .1:.8:.1 --policies lag,greedy,random
opportune sweep examples/peer-review/instance.toml --load .3,.5,.7 --report out/peer-review.html
opportune sweep priority-v1 --load .1:.8:.1 --workers 2 --backend loky --keep out/kept
```

With `--keep` an interrupted sweep goes on where it stopped.
""",
    "learn": """\
[Learned prices](../explanation/learned-prices.md) says what the policies do and what was measured.

```sh
opportune learn priority-v1 --load 0.7 --tasks 1000 --replications 2 --policies lag-learned
```
""",
    "fit": """\
Rates, durations and scores of a log, each with an interval; `--out` writes an instance file that
the other commands take. [How to](../how-to/fit-a-log.md) describes the log, the columns and what
is estimated how.
""",
    "replay": """\
Fits the log as `opportune fit` does, simulates policies on the fitted instance and sets their
reward per task beside what the log itself earned.
""",
    "serve": """\
Runs until it is told to stop. With an instance it makes a pool of it, unless there is one of that
name in the database. [From a CSV file to live decisions](../tutorial/from-csv-to-live.md) is a
first
walk, [the HTTP API](http-api.md) has every path.

```sh
opportune serve priority-v1 --load 0.7 &
curl -s --json '{"task_type": "type-1"}' http://127.0.0.1:8080/v1/pools/priority-v1/assignments
```
""",
    "keys create": """\
Makes a key and prints it, this once. From the first key on the service answers nobody without one;
a running service knows a new key within a second.

```sh
opportune keys create --scope decide --scope report --note "the router"
```
""",
    "keys list": """\
Prefix, scopes and note of every key; never a secret.

```sh
opportune keys list
```
""",
    "keys revoke": """\
Takes a key back, by the prefix that is listed; a running service refuses it within a second.
""",
    "backup": """\
Copies the journal to one file, as it is at one moment. API keys are in a file of their own.

```sh
opportune backup copy.db
```
""",
    "verify": """\
Checks the storage, makes every decision again with the draws of the first time, and compares the
snapshots with the records. Exit code 1 if something is not well. A running service owns its
journal:
stop it, or verify a backup.

```sh
opportune verify --database copy.db
kill %1
opportune verify
```
""",
    "stress": """\
Without `--url` it starts a service of its own on a temporary database. Three parts: as many durable
assignments as go, then at a rate, then rankings one by one; completions at the rate of assignments.

```sh
opportune stress --seconds 10
opportune stress --url http://127.0.0.1:8080 --key opp_... --servers 100 --types 5
```
""",
    "policies": """\
The ids that `--policies` takes.

```sh
opportune policies
```
""",
    "paper lag": """\
The tables and figures of the LAG paper, ours beside the paper's, in the folder that you name. An
interrupted run goes on where it stopped. Four of the six instances need no data; the others read
the folder that the environment variable `OPPORTUNE_DATA` names.

```sh
opportune paper lag --quick --out out/lag
opportune paper lag --workers 2 --out out/lag
```
""",
}
"""What to know of a command beyond its help, and commands to try; the pages' tests run them."""


def render() -> str:
    """The page."""
    lines = [INTRODUCTION]
    for command, (_, line) in COMMANDS.items():
        lines += [f"## `opportune {command}`", "", line, ""]
        parts = _subcommands(app[command])
        lines += [] if parts else _described(command, app[command])
        for name, part in parts.items():
            lines += [f"### `opportune {command} {name}`", ""]
            lines += _described(f"{command} {name}", part)
    return "\n".join(lines).rstrip() + "\n"


def _subcommands(command: App) -> dict[str, App]:
    """The commands below a command, such as ``lag`` of ``opportune paper lag``."""
    return {name: command[name] for name in command if not name.startswith("-")}


def _described(words: str, command: App) -> list[str]:
    """What to know of a command, examples, and its options."""
    docstring = (inspect.getdoc(command.default_command) or "").split("\n\n")[0]
    told = EXAMPLES.get(words, docstring.replace("\n", " ").replace("``", "`") + "\n")
    return [told, *_table(command), ""]


def _table(command: App) -> list[str]:
    rows = ["| argument or option | value | default | what it is |", "|---|---|---|---|"]
    for argument in command.assemble_argument_collection():
        if argument.children:  # a group of options: its members follow
            continue
        positional = argument.index is not None
        name = argument.names[0]
        shown = f"`{name.removeprefix('--').upper()}`" if positional else f"`{name}`"
        cells = (shown, _value(argument), _default(argument), argument.parameter.help or "")
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


def _value(argument: Argument) -> str:
    choices = argument.get_choices()
    if choices:
        return ", ".join(f"`{one}`" for one in choices)
    return " or ".join(VALUES.get(kind, kind.__name__) for kind in _kinds(argument.hint))


def _kinds(hint: Any) -> list[type]:
    """The types that a hint allows, None left out."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [kind for part in typing.get_args(hint) for kind in _kinds(part)]
    return [] if hint is type(None) else [typing.get_origin(hint) or hint]


def _default(argument: Argument) -> str:
    if argument.required:
        return "(required)"
    default = argument.field_info.default
    nothing = default is None or default is False or default == ""
    return "" if nothing else f"`{default}`"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
