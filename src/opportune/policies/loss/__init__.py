"""Policies of the loss model. Every module here is found by ``policies.base``."""
