from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from kuberth.cel.program import deep_calls

DEEP = 5000
PATIENCE_SECONDS = 60


def nest(depth: int) -> int:
    return 1 + nest(depth - 1) if depth else 0


def test_a_thread_keeps_its_recursion_limit_when_another_leaves() -> None:
    usual = sys.getrecursionlimit()
    is_within, other_left = Event(), Event()

    def enter_and_nest() -> int:
        with deep_calls():
            is_within.set()
            assert other_left.wait(PATIENCE_SECONDS)
            return nest(DEEP)

    with ThreadPoolExecutor(1) as threads:
        with deep_calls():
            nested = threads.submit(enter_and_nest)
            assert is_within.wait(PATIENCE_SECONDS)
        other_left.set()
        assert nested.result() == DEEP
    assert sys.getrecursionlimit() == usual


def test_within_itself_it_gives_back_what_was_there() -> None:
    usual = sys.getrecursionlimit()
    with deep_calls():
        with deep_calls():
            assert nest(DEEP) == DEEP
        assert nest(DEEP) == DEEP
    assert sys.getrecursionlimit() == usual
