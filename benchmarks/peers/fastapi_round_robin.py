"""A plain service as one writes it in an afternoon: FastAPI, SQLite, the next free server in turn.

Every assignment and completion is one committed transaction (write-ahead log, full
synchronization), so what it acknowledges is as durable as ours. It knows no scores, prices,
reasons, leases, idempotency or recovery of a half-finished request: it is the floor of what such a
service costs. Its paths are ours, so that the same load can be put on it.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI, Response


def application(database: str, n_servers: int) -> FastAPI:
    """The service with its database."""
    rows = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    rows.execute("PRAGMA journal_mode = wal")
    rows.execute("PRAGMA synchronous = full")
    rows.execute("CREATE TABLE assignment (id INTEGER PRIMARY KEY, server INTEGER, done INTEGER)")
    app = FastAPI()
    busy = [False] * n_servers
    turn = 0

    @app.get("/v1/pools/stress")
    async def pool() -> dict[str, int]:
        return {"capacity_mismatch": 0}

    @app.post("/v1/pools/stress/assignments", status_code=201)
    async def assign(task: dict[str, Any], response: Response) -> dict[str, Any]:
        nonlocal turn
        for _ in range(n_servers):
            turn = (turn + 1) % n_servers
            if not busy[turn]:
                break
        else:
            response.status_code = 409
            return {"detail": "no server is free"}
        busy[turn] = True
        made = rows.execute("INSERT INTO assignment (server, done) VALUES (?, 0)", (turn,))
        return {"assignment_id": str(made.lastrowid), "server": f"server-{turn + 1}"}

    @app.post("/v1/assignments/{number}:complete")
    async def complete(number: int, outcome: dict[str, Any]) -> dict[str, Any]:
        rows.execute("UPDATE assignment SET done = 1 WHERE id = ?", (number,))
        (server,) = rows.execute("SELECT server FROM assignment WHERE id = ?", (number,)).fetchone()
        busy[server] = False
        return {"assignment_id": str(number)}

    return app


def main() -> int:
    """Serve: DATABASE PORT SERVERS; the exit code."""
    database, port, n_servers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    app = application(database, n_servers)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
