"""The learner's own Transformer: assemble its parts, train it to copy, and use it in real runs."""
