"""What a learner handed in: whose it is, which files are meant, and their contents.

find_sources → take → gathered: whose is what, the days' files, answers out of untagged notebooks.
"""
