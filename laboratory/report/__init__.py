"""A study's report: statistics, sentences, tables and pictures."""
