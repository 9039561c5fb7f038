"""Grading other people's answers: what was handed in, behind walls, to a gradebook."""
