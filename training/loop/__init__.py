"""The training loop, its devices and checkpoints, and the folder of a run."""
