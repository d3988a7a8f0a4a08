"""Who owns which pool, and until when: lease rows in the journal's database.

A node takes a pool whose lease is over (or that nobody has), gets a fencing token that no other
node has, and renews the lease before it ends. All times are the database's, so clocks that differ
between nodes do no harm. A lease only says when others may take over; what keeps an old owner from
writing is the token, and that its own lease is not over (``postgres``).
"""

from __future__ import annotations

from typing import NamedTuple

from opportune.errors import InputError, Problem, shorten
from opportune.service.postgres import PostgresJournal

TAKE = """
INSERT INTO pool (name, token, node, address, lease_until)
VALUES (%(pool)s, 1, %(node)s, %(address)s, clock_timestamp() + make_interval(secs => %(secs)s))
ON CONFLICT (name) DO UPDATE
SET token = pool.token + 1, node = excluded.node, address = excluded.address,
    lease_until = excluded.lease_until
WHERE pool.lease_until IS NULL OR pool.lease_until <= clock_timestamp()
RETURNING token
"""
RENEW = """
UPDATE pool SET lease_until = clock_timestamp() + make_interval(secs => %s)
WHERE name = %s AND token = %s AND lease_until > clock_timestamp() RETURNING token
"""
RELEASE = """
UPDATE pool SET lease_until = clock_timestamp()
WHERE name = %s AND token = %s AND lease_until > clock_timestamp() RETURNING token
"""
HOLDERS = """
SELECT name, node, address, token, extract(epoch FROM lease_until - clock_timestamp())::float
FROM pool WHERE lease_until IS NOT NULL ORDER BY name
"""


class Lease(NamedTuple):
    """A pool's lease.

    Attributes:
        pool: Name of the pool.
        node: Who holds it, or held it last.
        address: Where that node answers.
        token: Its fencing token.
        seconds: Until it ends; 0 or less where it is over.
    """

    pool: str
    node: str
    address: str
    token: int
    seconds: float


class PoolLeases:
    """Leases of the pools of a journal, as one node sees and takes them.

    Args:
        journal: The journal.
        node: Name of this node, different from those of all others.
        address: Where it answers, for those who forward to it.
        seconds: How long a lease is.

    Raises:
        InputError: If the node has no name or the seconds are not above 0.
    """

    def __init__(
        self, journal: PostgresJournal, node: str, address: str, seconds: float = 3.0
    ) -> None:
        if not node:
            raise InputError(Problem("node", repr(node), "a name"))
        if not seconds > 0:
            raise InputError(Problem("lease", shorten(seconds), "seconds above 0"))
        self._journal, self.node, self.address, self.seconds = journal, node, address, seconds

    def take(self, pool: str) -> int | None:
        """A new fencing token of a pool that nobody holds; None while somebody does.

        Also a node's own lease must have ended: a node that has lost its state is another owner.
        """
        rows = self._journal.ask(
            TAKE,
            {"pool": pool, "node": self.node, "address": self.address, "secs": self.seconds},
        )
        return int(rows[0][0]) if rows else None

    def renew(self, pool: str, token: int) -> bool:
        """Whether the lease goes on; where not, the pool is not this owner's any more."""
        return bool(self._journal.ask(RENEW, (self.seconds, pool, token)))

    def release(self, pool: str, token: int) -> bool:
        """End a lease, so that another node may take over at once; whether it was running."""
        return bool(self._journal.ask(RELEASE, (pool, token)))

    def all(self) -> tuple[Lease, ...]:
        """Every lease there is or was, by pool."""
        return tuple(Lease(*row) for row in self._journal.ask(HOLDERS))

    def holder(self, pool: str) -> Lease | None:
        """Whom to forward to; None while nobody holds the pool."""
        running = [one for one in self.all() if one.pool == pool and one.seconds > 0]
        return running[0] if running else None
