"""Measurements against named neighbors: ``python -m benchmarks``. Never part of the tests' verdict."""
