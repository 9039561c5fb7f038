"""The process in which a learner's code runs, and checking a day with it."""
