"""Errors that a command prints as one message, without a traceback."""


class Refused(Exception):
    """The request cannot be carried out; the message says why and what is allowed."""


class AlreadyReported(Refused):
    """The same, already printed by another process."""


class TooLong(Refused):
    """The conversation does not fit into the model's context."""
