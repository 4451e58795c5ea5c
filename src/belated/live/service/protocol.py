"""`Protocol`: uvicorn's HTTP, which closes connections whose clients take too long, and says what is wrong as JSON."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from belated.live.service.problems import PROBLEM_JSON, Problem

#: Seconds between two looks at all connections.
_SWEEP = 1.0

#: The most bytes of the path and the headers of a request that may come in pieces.
_LARGEST_HEAD = 65_536


class _Outgoing(asyncio.Transport):
    """A connection, as the reply to one request writes to it: its head leaves with the first part of its body.

    By itself the head would be a packet that wakes the client for nothing.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle, self._transport = cycle, cycle.transport
        self._head: bytes | None = None  # none yet; empty: it has left

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send something, unless it is the head."""
        if self._head is None and self._cycle.response_started:
            self._head = bytes(data)
        else:
            self._transport.write(self._head + data if self._head else data)
            self._head = self._head and b""

    def is_closing(self) -> bool:
        """Whether the connection closes."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close the connection; a head without a body is sent first."""
        if self._head:
            self._transport.write(self._head)
        self._transport.close()


class Protocol(HttpToolsProtocol):
    """A connection. Those that wait for the rest of a request, or for a client that does not read, are looked at.

    Nothing is timed while a request is served: every second, a connection that is still in the same state is seen.
    """

    def connection_made(self, transport: Any) -> None:
        """Begin to look at the connections of this server."""
        super().connection_made(transport)
        self.part: Literal["head", "body"] | None = None  # of a request, that has not come as a whole
        self.head_size = 0
        self.waits: tuple[Any, float] | None = None
        app: Any = self.app
        self.seconds: float = app.service.settings.reading_seconds
        if not getattr(self.server_state, "swept", False):
            self.server_state.swept = True  # type: ignore[attr-defined]
            self._sweep()

    # ---------------------------------------------------------------- what comes

    def data_received(self, data: bytes) -> None:
        """Have a piece of a request parsed; the parser keeps a header until it is whole, so that pieces are counted."""
        had_begun = self.part == "head"
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserError:
            self._refuse("The request is not valid HTTP.")
        else:
            self.head_size += len(data) if had_begun and self.part == "head" else 0
            if self.head_size > _LARGEST_HEAD:
                self._refuse(f"The path and the headers have more than {_LARGEST_HEAD:,} bytes.")

    def _should_upgrade(self) -> bool:
        return True  # the parser stops at the body of a request that offers it, and no cycle begins

    def _decline(self, rest: bytes) -> None:
        """Serve a request that offers another protocol, as clients that know HTTP/2 do, in this one."""
        if self.scope["method"] == "CONNECT":
            self._refuse("The service is no proxy.")
            return
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        method, version = (self.scope[name].encode() for name in ("method", "http_version"))
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"%b %b HTTP/%b\r\n%b\r\n%b" % (method, self.url, version, b"".join(lines), rest))

    def on_message_begin(self) -> None:
        """Expect the head of a request."""
        super().on_message_begin()
        self.part, self.head_size = "head", 0

    def on_headers_complete(self) -> None:
        """Expect the body. An address in place of a path is no path of ours: its host would not be checked."""
        self.part = "body"
        if not self.url.startswith(b"/"):
            self.url = b"/" + self.url
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before and self.scope["method"] != "HEAD":  # whose reply is a head alone
            self.cycle.transport = _Outgoing(self.cycle)

    def on_message_complete(self) -> None:
        """Expect nothing more of this request."""
        self.part = None
        super().on_message_complete()

    # ---------------------------------------------------------------- clients that take too long

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            if isinstance(connection, Protocol):
                connection.look(now)
        if self.connections:
            self.loop.call_later(min(_SWEEP, self.seconds / 4), self._sweep)
        else:
            self.server_state.swept = False  # type: ignore[attr-defined]

    def look(self, now: float) -> None:
        """Close the connection if its client has taken too long."""
        state = self._state()
        if state is None:
            self.waits = None
        elif self.waits is None or self.waits[0] != state:
            self.waits = state, now
        elif now - self.waits[1] > self.seconds:
            self._give_up()

    def _state(self) -> Any:
        """Return what the connection waits for from its client; None: nothing."""
        if self.transport.is_closing():
            return None
        if self.flow.write_paused:
            return "reading", self.transport.get_write_buffer_size()
        is_idle = (self.cycle is None or self.cycle.response_complete) and self.timeout_keep_alive_task is None
        return (self.part, id(self.cycle)) if self.part is not None or is_idle else None

    def _give_up(self) -> None:
        begun = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if begun or self.flow.write_paused:
            self.transport.abort()
            return
        if self.part != "body" or not self.cycle.response_complete:
            self._say(Problem("slow", f"The request was not whole after {self.seconds:g} seconds; send it faster."))
        self.transport.close()

    # ---------------------------------------------------------------- requests that cannot be read

    def _refuse(self, sentence: str) -> None:
        """Close the connection and say why, but not into the reply to the request before."""
        cycle = self.cycle
        is_own = self.part == "body" and not self.pipeline  # its body is what cannot be read
        if cycle is None or cycle.response_complete or (is_own and not cycle.response_started):
            self._say(Problem("malformed", sentence))
        self.transport.close()

    def _say(self, problem: Problem) -> None:
        body = problem.body()
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (PROBLEM_JSON, len(body))
        self.transport.write(STATUS_LINE[problem.status] + head + body)
