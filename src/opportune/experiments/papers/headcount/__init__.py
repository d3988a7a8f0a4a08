"""Beyond the LAG paper: prices by headcount, tighter bounds, the exact optimum (ours)."""
