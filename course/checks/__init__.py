"""What a check is and what it works with: inputs, answers, what was seen, and how that travels."""
