"""Policies that learn the scores they rank by, one a file; ``policies/beliefs.py`` finds them."""
