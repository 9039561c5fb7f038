"""Pages to play with in a browser, computed by the references: one question each, moved with the mouse."""
