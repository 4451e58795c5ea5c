"""A store that is served over HTTP on this machine, for tests of the service, its client and its pages."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

import belated as bl
from belated.live.service import Settings, make_app
from belated.live.serving import configured
from belated.live.tokens import SCOPES, make_token

#: Seconds for a reply: the first answer of a process may have to compile, on a machine that does other things.
PATIENCE = 600


@dataclass
class Reply:
    """A reply: its code, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """The kind of problem that it is."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        assert self.json["status"] == self.status
        assert self.json["detail"].endswith(".")
        return self.json["type"].removeprefix("about:blank#")


@dataclass
class Served:
    """A served store: `url` is its address, `token` allows everything."""

    store: bl.live.Store
    app: Any
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_token(self, *scopes: str, **options: Any) -> str:
        return make_token(self.store.storage, "test", scopes or SCOPES, author="test", **options)[0]

    def send(self, method: str, path: str, content: Any = None, *, token: str | None = "", **headers: str) -> Reply:
        """Send a request; bytes are sent as they are, and `token=None` sends none."""
        head = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            head.setdefault("authorization", f"Bearer {token or self.token}")
        body = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, head)
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Reply:
        return self.send("GET", path, **options)

    def post(self, path: str, content: Any = None, **options: Any) -> Reply:
        return self.send("POST", path, content, **options)

    def connect(self) -> socket.socket:
        """Return a connection on which nothing has been sent."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)


class _Server(uvicorn.Server):
    """A server that ends as soon as it is told to: uvicorn looks every 0.1 s, three times over."""

    async def main_loop(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        ticking = asyncio.create_task(super().main_loop())
        await self._ending.wait()
        ticking.cancel()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in [*self.servers, *(sockets or ())]:
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        patience = time.monotonic() + (self.config.timeout_graceful_shutdown or 0)
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < patience:
            await asyncio.sleep(0.002)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()


@contextlib.contextmanager
def serving(store: bl.live.Store, settings: Settings | None = None, routes: Any = ()) -> Iterator[Served]:
    """Serve a store from a thread, until the end; the store is not closed."""
    app = make_app(store, settings, routes)
    server = _Server(configured(app))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        secret, _ = make_token(store.storage, "everything", SCOPES, author="test")
        try:
            yield Served(store, app, listener.getsockname()[1], secret)
        finally:
            server.end()
            thread.join()
