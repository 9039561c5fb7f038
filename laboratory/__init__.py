"""The laboratory: questions about Transformers, answered by many small runs and what their spread allows."""
