"""From a log to an instance: reading and checking it, every estimate, the files that come of it."""
