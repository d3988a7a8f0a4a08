"""Tests. What several of them share is imported from here by its full name."""
