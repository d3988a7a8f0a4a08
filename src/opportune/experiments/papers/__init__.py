"""Whole papers, reproduced: one subpackage a paper, its published numbers beside the code."""
