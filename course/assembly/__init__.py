"""The learner's own Transformer: its parts put together, trained to copy, and handed to real runs."""
