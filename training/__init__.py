"""Real runs of what is taught: tasks, data, the trainer, pictures, and using what was trained."""
