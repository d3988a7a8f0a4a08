"""Tests of the form of the code.

Each rule is a function from source text to a list of problems, so that it can be shown to
fail on a planted violation; then it is run over the project.
"""
