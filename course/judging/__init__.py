"""What a right answer sees and what known wrong ones see; the verdict, the diagnosis, and its words."""
