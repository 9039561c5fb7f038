"""What a check is made of: inputs, answers, observations, and how these cross processes."""
