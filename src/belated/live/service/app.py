"""`App`: the application that a server runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import Message, Receive, Scope, Send

from belated.live.service import access, journal, login
from belated.live.service.calls import Call, Endpoint, Reply, read_name
from belated.live.service.problems import PROBLEM_JSON, Problem, decoded, problem_of
from belated.live.service.protocol import WHOLE
from belated.live.service.routes import ENDPOINTS, RouteTable
from belated.live.service.service import Service
from belated.live.service.settings import Settings
from belated.live.store import Store
from belated.live.tokens import Token

_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]

#: Codes of replies that have no body.
_BODILESS = (204, 304)


def make_app(
    store: Store, settings: Settings | None = None, routes: Sequence[BaseRoute] = (), *, alone: bool = False
) -> App:
    """Return the application that serves a store over HTTP.

    Parameters
    ----------
    store : Store
    settings : Settings, optional
    routes : sequence of BaseRoute
        More routes, such as pages; `request.app.service` is the `Service`. In the path that they see, names are as they
        were sent: percent-encoded, see `read_name`.
    alone : bool
        Whether the process and the store are the service's own: Python is tuned for it, and the store is closed at its
        end.

    Returns
    -------
    App
    """
    return App(Service(store, settings or Settings(), alone=alone), routes)


class App(Starlette):
    """Serves the table of routes itself, in as few steps as possible, and everything else as Starlette does.

    Attributes
    ----------
    service : Service
    """

    def __init__(self, service: Service, routes: Sequence[BaseRoute] = ()) -> None:
        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            starting = service.begin()
            journal.note("started")
            yield
            starting.cancel()
            await asyncio.get_running_loop().run_in_executor(None, service.close)
            journal.note("stopped")

        super().__init__(routes=[*login.routes(service), *routes], lifespan=lifespan)
        self.router.redirect_slashes = False
        self.service, self._table = service, RouteTable()
        self._decoders = {each.takes: msgspec.json.Decoder(each.takes) for each in ENDPOINTS if each.takes is not None}
        for kind in (Problem, HTTPException, Exception):
            self.add_exception_handler(kind, login.page_problem)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the beginning and the end of the application."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        began = time.perf_counter()
        path, method = scope["raw_path"], scope["method"]
        route, size, entered = "(none)", 0, False
        try:
            headers = access.headers_of(scope)
            access.check_request(method, headers, self.service.settings)
            match = self._table.find(path)
            if match is None and path.startswith(b"/v1/"):
                raise Problem("not-found", "There is nothing at this path; /openapi.json lists all paths.")
            if match is None:
                route, scope["path"] = "(page)", path.decode("latin-1")
                self.service.enter(size)
                entered = True
                status = await self._serve_page(scope, receive, send)
                self.service.metrics.served(method, route, status, time.perf_counter() - began)
                return
            endpoints, part = match
            endpoint = endpoints.get("GET" if method == "HEAD" else method)  # the server drops the body
            if endpoint is None:
                raise Problem(
                    "method", f"Use {' or '.join(sorted(endpoints))} here.", allow=", ".join(sorted(endpoints))
                )
            route = endpoint.path
            name = read_name(part) if part else ""
            token = await self._token(endpoint, method, headers, name) if endpoint.scopes else None
            content, limit = None, self.service.settings.batch_body if endpoint.many else self.service.settings.body
            if endpoint.takes is not None:
                size = _announced(headers, limit)
            if path.startswith(b"/v1/"):  # its health can be asked however busy it is
                self.service.enter(size)
                entered = True
            if endpoint.takes is not None:
                content = decoded(self._decoders[endpoint.takes], await _body(receive, limit))
            call = Call(self.service, name, token, content, scope["query_string"], headers)
            reply = await endpoint.handle(call)
            if token is not None and method not in access.SAFE and endpoint.scopes not in (("ask",), ("tell",)):
                journal.note("changed", route=f"{method} {route}", status=reply.status, token=token.id)
        except Exception as error:
            problem = problem_of(error)
            if problem.kind == "internal":
                journal.failed(route, error)
            reply = Reply(problem.body(), problem.status, PROBLEM_JSON.decode(), tuple(problem.headers.items()))
        finally:
            if entered:
                self.service.leave(size)
        seconds = time.perf_counter() - began
        self.service.metrics.served(method, route, reply.status, seconds)
        await _send(scope, send, reply)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Let Starlette serve paths that are not in the table; return the code of the reply."""
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await super().__call__(scope, receive, sent)
        except Exception:  # Starlette raises an error again after it has replied to it
            if not status:
                raise
        return status

    async def _token(self, endpoint: Endpoint, method: str, headers: access.Headers, name: str) -> Token:
        """Return whose request it is, or raise unless the token allows it."""
        secret = access.cookie(headers) if method in access.SAFE and b"authorization" not in headers else None
        if secret is None:
            token = await self.service.keyring.find(access.bearer(headers), "token")
        else:
            token = await self.service.keyring.find(secret, "browser")
        experiment = name if "{name}" in endpoint.path else token.experiment if not endpoint.whole else None
        access.check_scopes(token, endpoint.scopes, experiment)
        self.service.rates.take(token)
        return token


def _announced(headers: access.Headers, limit: int) -> int:
    """Return the size that a body is said to have, the limit if nothing is said; raise if it is too large."""
    given = headers.get(b"content-length")
    if given is None:
        return limit if b"transfer-encoding" in headers else 0
    size = int(given)
    if size > limit:
        raise Problem("too-large", f"The request has {size:,} bytes; send at most {limit:,}.")
    return size


async def _body(receive: Receive, limit: int) -> bytes:
    """Return the body of a request; raise if it is too large, or its client is gone."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise Problem("too-large", f"The request is larger than {limit:,} bytes; send less at a time.")
        return body
    parts: list[bytes] = []
    size = 0
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise Problem("too-large", f"The request is larger than {limit:,} bytes; send less at a time.")
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise Problem("slow", "The request ended before it was complete.")


@lru_cache(maxsize=64)
def _head(media: str) -> bytes:
    """Return the lines of a reply's head that depend on its media type alone."""
    return b"".join(b"%b: %b\r\n" % line for line in ((b"content-type", media.encode()), *_HEADERS))


def _sent_whole(scope: Scope, reply: Reply) -> bool:
    """Send a reply in one step, if it has a body and nothing unusual, and the server can; return whether it did."""
    send = scope.get(WHOLE)
    if send is None or reply.headers or reply.status in _BODILESS or not isinstance(reply.body, bytes):
        return False
    sent: bool = send(reply.status, _head(reply.media), reply.body)
    return sent


async def _send(scope: Scope, send: Send, reply: Reply) -> None:
    if _sent_whole(scope, reply):
        return
    head: list[tuple[bytes, bytes]] = [(b"content-type", reply.media.encode()), *_HEADERS]
    head += [(name.encode(), value.encode()) for name, value in reply.headers]
    body = reply.body
    if isinstance(body, bytes) and reply.status not in _BODILESS:
        head.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": head})
    if not isinstance(body, bytes):
        async for part in body:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})
