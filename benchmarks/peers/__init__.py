"""The same work done with other people's tools, each a program of its own.

A peer that replays arrivals imports nothing of ours, so it runs in the neighbors' environment.
"""
