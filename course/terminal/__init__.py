"""What every room's commands take and print: arguments, colours, marks and words."""
