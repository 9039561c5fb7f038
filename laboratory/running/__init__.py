"""Running a study: its cells in worker processes, resumed where they were stopped."""
