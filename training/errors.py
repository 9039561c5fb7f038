"""What is told to whoever asked, in place of a traceback."""


class Refused(Exception):
    """What cannot be done, in words for whoever asked."""


class AlreadyReported(Refused):
    """The same, where another process has said it already."""


class TooLong(Refused):
    """A conversation that does not fit: a shorter one may."""
