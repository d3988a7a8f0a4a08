"""Compiled loops over arrays. They know no instance, no policy, no file and no clock."""
