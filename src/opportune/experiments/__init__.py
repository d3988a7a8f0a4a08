"""What it means: comparisons, sweeps, intervals, reports."""
