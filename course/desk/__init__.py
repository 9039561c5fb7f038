"""What a learner sees and touches: board, verdicts, watch, keys, hints, doctor, and their commands."""
