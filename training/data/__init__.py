"""Corpora, vocabularies and tasks: what a model is trained on, batch by batch."""
