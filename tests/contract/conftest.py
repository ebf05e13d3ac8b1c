"""Fixtures of the contract: each runs a scenario on one implementation after the other.

The real kube-apiserver is one of them, with the tests marked e2e.
"""

from __future__ import annotations

import pytest

from tests.contract.implementations import Run, runner

_SERVERS = ["in-process", "local-https", pytest.param("real", marks=pytest.mark.e2e)]


@pytest.fixture(params=["memory", "fenced", *_SERVERS])
def run(request: pytest.FixtureRequest) -> Run:
    """Every implementation."""
    return runner(request.param, request)


@pytest.fixture(params=_SERVERS)
def run_on_servers(request: pytest.FixtureRequest) -> Run:
    """Those with a whole API server behind them, which admits objects and defines kinds."""
    return runner(request.param, request)
