"""`Protocol`: uvicorn's HTTP, which closes connections whose clients take too long, and says what is wrong as JSON."""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from belated.live.service.problems import PROBLEM_JSON, Problem

#: Seconds between two looks at all connections.
_SWEEP = 1.0


class Protocol(H11Protocol):
    """A connection. Those that wait for the rest of a request, or for a client that does not read, are looked at.

    Nothing is timed while a request is served: every second, a connection that is still in the same state is seen.
    """

    def connection_made(self, transport: Any) -> None:
        """Begin to look at the connections of this server."""
        super().connection_made(transport)
        self.waits: tuple[Any, float] | None = None
        app: Any = self.app
        self.seconds: float = app.service.settings.reading_seconds
        if not getattr(self.server_state, "swept", False):
            self.server_state.swept = True  # type: ignore[attr-defined]
            self._sweep()

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
        if self.conn.their_state is h11.SEND_BODY:
            return "body", id(self.cycle)
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            return "head", id(self.cycle)
        return None

    def _give_up(self) -> None:
        begun = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if begun or self.flow.write_paused:
            self.transport.abort()
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._say(Problem("slow", f"The request was not whole after {self.seconds:g} seconds; send it faster."))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Say that a request cannot be read as HTTP."""
        self._say(Problem("malformed", "The request is not valid HTTP."))
        self.transport.close()

    def _say(self, problem: Problem) -> None:
        body = problem.body()
        headers = [
            (b"content-type", PROBLEM_JSON), (b"content-length", str(len(body)).encode()), (b"connection", b"close"),
        ]  # fmt: skip
        for event in (
            h11.Response(status_code=problem.status, headers=headers), h11.Data(data=body), h11.EndOfMessage(),
        ):  # fmt: skip
            self.transport.write(self.conn.send(event) or b"")
