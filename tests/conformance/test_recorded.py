"""The whole corpus once more, with pods and nodes that record what the in-tree plugins read of them.

A plugin that reads a field outside its `inputs` fails here by name; and being watched changes no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kuberth import plugins
from kuberth.assembly import profiles
from kuberth.testing import ReadRecorder
from tests.conformance.replay import differences
from tests.conformance.test_corpus import FAMILIES, cases_of

RECORDED = [name for name, (kind, _lines) in FAMILIES.items() if kind not in ("cel", "queue")]
"""Those that ask plugins."""


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadRecorder]:
    made = ReadRecorder()
    in_tree = plugins.in_tree_registry
    monkeypatch.setattr(profiles, "in_tree_registry", lambda: made.registry(in_tree()))
    logging.disable(logging.CRITICAL)
    yield made
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", RECORDED)
def test_plugins_read_what_they_state(name: str, recorder: ReadRecorder) -> None:
    for case in cases_of(name):
        assert not differences(case)
    recorder.check()
    assert recorder.read, "the recorder has seen nothing"
