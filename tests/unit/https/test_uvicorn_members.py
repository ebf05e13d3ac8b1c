"""The members of uvicorn that `kuberth.https` uses although uvicorn does not document them.

pyproject.toml bounds uvicorn's version for their sake. When a new version is to be allowed, this test says
which of them changed, before connections behave in a new way.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

METHODS = {
    "connection_made": ("transport",),
    "connection_lost": ("exc",),
    "data_received": ("data",),
    "on_message_begin": (),
    "on_headers_complete": (),
    "on_body": ("body",),
    "on_message_complete": (),
    "on_response_complete": (),
    "send_400_response": ("msg",),
    "shutdown": (),
    "_unsupported_upgrade_warning": (),
}
ATTRIBUTES = ("app_state", "cycle", "headers", "logger", "loop", "transport")
HINT = (
    f"uvicorn {uvicorn.__version__}: {{}}; adapt kuberth.https.connection, "
    "then raise the bound of uvicorn in pyproject.toml"
)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_is_overridden_or_called(name: str) -> None:
    method = getattr(HttpToolsProtocol, name, None)
    assert method is not None, HINT.format(f"HttpToolsProtocol.{name} is gone")
    found = tuple(inspect.signature(method).parameters)[1:]
    assert found == METHODS[name], HINT.format(f"HttpToolsProtocol.{name} takes {found}")


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_of_a_new_connection(name: str) -> None:
    async def application(scope: object, receive: object, send: object) -> None:
        raise AssertionError

    async def names() -> set[str]:
        config = uvicorn.Config(application, lifespan="off", log_config=None)
        config.load()
        return set(vars(HttpToolsProtocol(config, ServerState(), {})))

    assert name in asyncio.run(names()), HINT.format(f"HttpToolsProtocol has no {name}")


def test_the_servers_state_holds_its_tasks() -> None:
    assert isinstance(vars(ServerState()).get("tasks"), set), HINT.format("ServerState has no set of tasks")
