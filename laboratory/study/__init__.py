"""A study's question: its variants, their models, and what is measured of each."""
