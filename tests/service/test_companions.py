"""Companions: told which pools this node owns, and when it does so no longer."""

from __future__ import annotations

from pathlib import Path

from litestar.testing import TestClient

from opportune.service.app import create_app
from opportune.service.node import Node
from opportune.service.owner import PoolOwner
from opportune.service.settings import ServiceSettings
from tests.service.serving import HERE


class Listing:
    """A companion that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def owned(self, owner: PoolOwner) -> None:
        self.told.append(f"owned {owner.pool}")

    def ended(self, owner: PoolOwner) -> None:
        self.told.append(f"ended {owner.pool}")


def test_companions_follow_the_pools_of_a_node(tmp_path: Path) -> None:
    for told in (["owned new", "ended new"], ["owned new", "ended new"]):
        node, listing = Node(ServiceSettings(database=tmp_path / "p.db")), Listing()
        node.companions.append(listing)
        with TestClient(create_app(node), base_url=HERE) as http:
            assert http.put("/v1/pools/new", json={}).status_code in (200, 201)
            assert http.put("/v1/pools/new", json={"k": 2}).status_code == 200
        assert listing.told == told
