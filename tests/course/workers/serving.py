"""In a worker of the tests: runs the code that a request holds."""


def serve(request, send):
    """The code answers by `send`."""
    exec(request["code"], {"send": send})
