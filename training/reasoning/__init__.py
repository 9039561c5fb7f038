"""A small LLaMA that learns to add: pretraining, instruction tuning, reinforcement learning."""
