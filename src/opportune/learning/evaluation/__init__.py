"""What would another policy have earned? Estimates from the decisions of a log."""
