"""What a name of a task type, a server or anything else that is declared may look like.

One rule for files, Python and the live service: what is taken at one door is priced, shown and
written to a file behind every other one.
"""

from __future__ import annotations

from opportune.errors import Problem


def name_problem(field: str, name: str) -> Problem | None:
    """What is wrong with a name; None if nothing is.

    Args:
        field: Where it stands, for the message.
        name: The name.
    """
    if not name:
        return Problem(field, "''", "a name", "write one; a blank cell is none")
    if name != name.strip():
        return Problem(
            field,
            repr(name),
            "a name without leading or trailing blanks",
            "blanks make two spellings of one name; remove them",
        )
    if not name.isprintable():
        return Problem(field, repr(name), "printable characters", "remove the others")
    return None
