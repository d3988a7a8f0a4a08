"""The live service: a pure engine, its journal, and the ways in.

``engine.decide`` turns a command into events and an answer, ``applying.apply`` turns an event
into the next state; neither knows a clock, a file or a generator of random numbers.
"""
