"""``python -m benchmarks [SECTION ...]``: measure, print tables or JSON. See README.md."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from benchmarks.machine import machine_facts, pin_to_one_core
from benchmarks.sections import Effort, sections_by_name
from benchmarks.tables import as_json, print_tables


def main(arguments: list[str] | None = None) -> int:
    """Measure the sections that are named, or all; the exit code.

    Missed targets are marked and are no failure: the machine decides them too. Results that
    differ from a peer's are.
    """
    sections = sections_by_name()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("section", nargs="*", help=f"any of {', '.join(sections)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes, under 20 seconds")
    parser.add_argument("--rounds", type=int, help="rounds of every measurement")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.section if name not in sections]
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(sections)}")
    if asked.rounds is not None and asked.rounds < 1:
        parser.error(f"--rounds {asked.rounds}: at least 1")
    effort = Effort(quick=asked.quick, rounds=asked.rounds)
    facts = {**machine_facts(), "run": pin_to_one_core()}
    results = {}
    with Console(stderr=True).status("") as status:
        for name in dict.fromkeys(asked.section or sections):
            report = sections[name].measure(effort, lambda text: status.update(text))
            results[name] = (sections[name], report)
    if asked.format == "json":
        print(as_json(facts, results))
    else:
        console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
        print_tables(facts, results, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
