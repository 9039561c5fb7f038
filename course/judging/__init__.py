"""The observations of right and known wrong answers, the verdict, the diagnosis, and their messages."""
