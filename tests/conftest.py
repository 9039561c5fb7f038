"""How tests are shared out among processes: what belongs together stays together."""

import pytest


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for the marks
def pytest_collection_modifyitems(items):
    """The tests of one day share what its judge has computed; other tests stay with their file."""
    for item in items:
        day = getattr(item, "callspec", None) and item.callspec.params.get("day")
        item.add_marker(pytest.mark.xdist_group(getattr(day, "stem", None) or str(item.path)))
