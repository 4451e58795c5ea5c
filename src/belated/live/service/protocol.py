"""`Protocol`: uvicorn's HTTP, which closes connections whose clients take too long, and says what is wrong as JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from belated.live.service.problems import PROBLEM_JSON, Problem

if TYPE_CHECKING:
    from belated.live.service.app import App

#: Seconds between two looks at all connections.
_SWEEP_SECONDS = 1.0

#: The most bytes of the path and the headers of a request, and the most headers.
_LARGEST_HEAD, _MOST_HEADERS = 32_768, 100


#: What a request's scope calls `_Outgoing.send`.
WHOLE = "belated.whole"


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

    def send(self, status: int, head: bytes, body: bytes) -> bool:
        """Send a reply as a whole, which ASGI's messages do in four times the time; return whether it was sent.

        A client that does not read, or is gone, is left to them.
        """
        cycle = self._cycle
        if cycle.disconnected or cycle.flow.write_paused:
            return False
        lines = [b"%b: %b\r\n" % header for header in cycle.default_headers]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"content-length: %d\r\n\r\n" % len(body))
        self._transport.write(b"".join((STATUS_LINE[status], head, *lines, body)))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._transport.close()
        cycle.on_response()
        return True

    def is_closing(self) -> bool:
        """Whether the connection closes."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close the connection; a head without a body is sent first."""
        if self._head:
            self._transport.write(self._head)
        self._transport.close()


#: What a connection waits for (a part of a request, or the client to read), and its progress.
_Waiting: TypeAlias = tuple[Literal["head", "body", "next", "reading"] | None, int]


class Protocol(HttpToolsProtocol):
    """A connection. Those that wait for the rest of a request, or for a client that does not read, are looked at.

    Nothing is timed while a request is served: every second, a connection that is still in the same state is seen.
    """

    app: App

    def connection_made(self, transport: Any) -> None:  # asyncio and uvicorn differ in its type
        """Begin to look at the connections of this server."""
        super().connection_made(transport)
        self.part: Literal["head", "body"] | None = None  # of a request, that has not come as a whole
        self.loose: int | None = 0  # bytes that came in pieces, of the head or after the last part of a body
        self.number = 0  # of requests that have begun
        self.is_quiet = False  # nothing has come since the last reply
        self.piece = 0  # bytes of the piece that is being parsed
        self.refusal: Problem | None = None  # what is said after the replies to the requests before
        self.waits: tuple[_Waiting, float] | None = None
        self.seconds: float = self.app.service.settings.reading_seconds
        if not getattr(self.server_state, "swept", False):
            self.server_state.swept = True  # type: ignore[attr-defined]
            self._sweep()

    # ---------------------------------------------------------------- what comes

    def data_received(self, data: bytes) -> None:
        """Have a piece of a request parsed; the parser keeps a header until it is whole, so that pieces are counted."""
        if self.refusal is not None:
            return
        part, cycle, self.piece, self.is_quiet = self.part, self.cycle, len(data), False
        held = len(cycle.body) if part == "body" else 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(_too_large(error) or Problem("malformed", "The request is not valid HTTP."))
        else:
            if part is not None and part == self.part and cycle is self.cycle:  # a piece of one request
                self._count(cycle, held)

    def _count(self, cycle: RequestResponseCycle, held: int) -> None:
        """Refuse a head that is too large, and headers behind a body that are."""
        if self.loose is None:
            return
        self.loose += self.piece
        limit = _LARGEST_HEAD
        if self.part == "body":
            self.loose -= len(cycle.body) - held
            # after the reply, a body is not kept any more
            limit = self.app.service.settings.batch_body if cycle.response_complete else limit
        if self.loose > limit:
            self._refuse(_large())

    def _should_upgrade(self) -> bool:
        return True  # the parser stops at the body of a request that offers it, and no cycle begins

    def _decline(self, rest: bytes) -> None:
        """Serve a request that offers another protocol, as clients that know HTTP/2 do, in this one."""
        if self.scope["method"] == "CONNECT":
            self._refuse(Problem("malformed", "The service is no proxy."))
            return
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        method, version = (self.scope[name].encode() for name in ("method", "http_version"))
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"%b %b HTTP/%b\r\n%b\r\n%b" % (method, self.url, version, b"".join(lines), rest))

    def on_message_begin(self) -> None:
        """Expect the head of a request."""
        super().on_message_begin()
        self.part, self.loose = "head", 0
        self.number += 1

    def on_headers_complete(self) -> None:
        """Expect the body. An address in place of a path is no path of ours: its host would not be checked."""
        if len(self.headers) > _MOST_HEADERS:
            raise Problem("head", f"The request has more than {_MOST_HEADERS} headers; send fewer.")
        if (self.loose or 0) + self.piece > _LARGEST_HEAD and self._head_size() > _LARGEST_HEAD:
            raise _large()
        self.part, self.loose = "body", None
        if not self.url.startswith(b"/"):
            self.url = b"/" + self.url
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before and self.scope["method"] != "HEAD":  # whose reply is a head alone
            self.cycle.transport = outgoing = _Outgoing(self.cycle)
            self.scope[WHOLE] = outgoing.send  # type: ignore[literal-required]

    def on_chunk_header(self) -> None:
        """Count from the next piece on: if this part of the body is the last, headers may follow it."""
        self.loose = -self.piece

    def on_message_complete(self) -> None:
        """Expect nothing more of this request."""
        self.part = None
        super().on_message_complete()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_response_complete(self) -> None:
        """Serve the next request that arrived, or refuse what follows the last; `look` closes idle connections."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.refusal is not None:
            self._say(self.refusal)
            self.transport.close()
        else:
            self.is_quiet = self.part is None

    # ---------------------------------------------------------------- clients that take too long

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            if isinstance(connection, Protocol):
                connection.look(now)
        if self.connections:
            self.loop.call_later(min(_SWEEP_SECONDS, self.seconds / 4), self._sweep)
        else:
            self.server_state.swept = False  # type: ignore[attr-defined]

    def look(self, now: float) -> None:
        """Close the connection if its client has taken too long."""
        state = self._state()
        if state is None:
            self.waits = None
        elif self.waits is None or self.waits[0] != state:
            self.waits = state, now
        elif now - self.waits[1] > (self.timeout_keep_alive if state[0] == "next" else self.seconds):
            self._give_up()

    def _state(self) -> _Waiting | None:
        """Return what the connection expects from its client; None if nothing."""
        if self.transport.is_closing():
            return None
        if self.flow.write_paused:
            return "reading", self.transport.get_write_buffer_size()
        if self.part is None and self.cycle is not None and not self.cycle.response_complete:
            return None
        return "next" if self.is_quiet else self.part, self.number

    def _give_up(self) -> None:
        begun = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if begun or self.flow.write_paused:
            self.transport.abort()
            return
        if not self.is_quiet and (self.part != "body" or not self.cycle.response_complete):
            self._say(Problem("slow", f"The request was not complete after {self.seconds:g} seconds; send it faster."))
        self.transport.close()

    # ---------------------------------------------------------------- requests that cannot be read

    def _refuse(self, problem: Problem) -> None:
        """Say what is wrong and close the connection, after all complete requests are answered."""
        is_own = self.part == "body"  # of the last request: it is not whole
        if is_own and self.pipeline:
            self.pipeline.popleft()
            is_own = False
        self.part = None
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not is_own:
            self.refusal = problem
            return
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self._say(problem)
        self.transport.close()

    def _say(self, problem: Problem) -> None:
        body = problem.body()
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (PROBLEM_JSON, len(body))
        self.transport.write(STATUS_LINE[problem.status] + head + body)


def _large() -> Problem:
    return Problem("head", f"The path and the headers have more than {_LARGEST_HEAD:,} bytes; send less.")


def _too_large(error: Exception) -> Problem | None:
    """Return the problem that a callback of the parser has raised."""
    cause = error.__context__
    return cause if isinstance(cause, Problem) else None
