"""From what happened to what is known: estimates, their uncertainty, and a fitted instance."""
