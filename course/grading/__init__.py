"""Grading other people's answers: what was handed in, in the sandbox, to a gradebook."""
