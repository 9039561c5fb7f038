"""What every room's commands take and print: arguments, colors, marks and words."""
