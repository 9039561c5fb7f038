"""Real training runs of the course's models: data, models, training loop, and the use of trained models."""
