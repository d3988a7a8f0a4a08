"""Measurements beside named neighbors: ``python -m benchmarks``. No test depends on a time."""
