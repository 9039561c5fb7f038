"""A run from the command line: its options, its processes and its session."""
