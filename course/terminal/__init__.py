"""The arguments, colors, marks and words that the commands of all rooms share."""
