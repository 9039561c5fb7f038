"""The references as text, and what is made of it: stubs, cells, cut and changed definitions, editions."""
