"""What no committed text may hold: a machine's paths and a registry's hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping


def _words(*pairs: tuple[str, str]) -> str:
    """Each word is written in two parts, so that this file does not match itself."""
    return "|".join(re.escape(first + second) for first, second in pairs)


MACHINE_PATH = re.compile(
    r"(?<![\w.~-])(?:"
    + _words(("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/Use", "rs/"), ("/tmp/ba", "sh_"))
    + r")|[A-Z]:\\"
    + _words(("Use", "rs\\"))
)
"""A path that exists on one machine only."""

REGISTRY_HOST = re.compile(
    _words(
        ("py", "pi.org"),
        ("python", "hosted.org"),
        ("registry.np", "mjs"),
        ("deb.deb", "ian.org"),
        ("--index", "-url"),
        ("--extra-index", "-url"),
        ("--find", "-links"),
        ("--trusted", "-host"),
    )
)
"""A package registry: each machine is told its own."""


def place_problems(path: str, text: str) -> list[str]:
    """Lines that name a machine's path or a registry's host."""
    return [
        f"{path}:{number} {what}: {found.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in (("machine path", MACHINE_PATH), ("registry", REGISTRY_HOST))
        if (found := pattern.search(line))
    ]


FRAGMENT = re.compile(r"(?P<issue>\d+)(?:-[\w-]+)?\.(?P<kind>[a-z]+)(?:\.\d+)?\.md")
"""A news fragment: ``<issue>[-<word>].<kind>[.<number>].md``."""


def fragment_problems(fragments: Mapping[str, str], kinds: Collection[str]) -> list[str]:
    """News fragments (name to text) with a wrong name, an unknown kind or no text."""
    problems = []
    for name, text in fragments.items():
        match = FRAGMENT.fullmatch(name)
        if match is None:
            problems.append(f"changelog.d/{name}: not named <issue>[-<word>].<kind>.md")
        elif match["kind"] not in kinds:
            problems.append(f"changelog.d/{name}: kind '{match['kind']}', not one of {kinds}")
        if not text.strip():
            problems.append(f"changelog.d/{name}: empty")
    return problems
