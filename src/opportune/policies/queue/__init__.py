"""Policies of the queue. Every module here is found by ``policies.base``."""
