"""The references as text, and what is generated from it: stubs, cells, redacted and changed
definitions, editions."""
