from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kuberth.observe import verbosity


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command sets up logging for the whole process; the next test has its own."""
    before = {each: each.level for each in _loggers()}
    root = logging.getLogger()
    handlers = root.handlers[:]
    yield
    for each in _loggers():
        each.setLevel(before.get(each, logging.NOTSET))
    root.handlers[:] = handlers
    verbosity.level = 0


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    return [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
