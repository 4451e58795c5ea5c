"""`ServiceConnection`: requests to a service, sent again where that is safe; problems become the storages' errors."""

from __future__ import annotations

import functools
import http.client
import io
import json
import os
import random
import select
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast
from urllib.parse import urlsplit

from belated.base.checks import positive, whole
from belated.base.documents import JsonObject
from belated.base.errors import BelatedError, OptionError, argument
from belated.base.text import one_line
from belated.live.errors import PROBLEMS, LiveError, StorageError

if TYPE_CHECKING:
    import socket

#: Where a token is looked for if none is given.
VARIABLE = "BELATED_TOKEN"

#: The seconds that a call may take, and how often it is tried again, by default.
TIMEOUT, RETRIES = 10.0, 4

#: Seconds of the first pause before a call is tried again, which doubles, and of the longest.
_PAUSE, _LONGEST_PAUSE = 0.05, 2.0

#: Seconds after which a connection that was not used is not trusted: servers close them after five.
_IDLE = 4.0

#: Bytes that are read at a time.
_READ_BYTES = 1 << 20

#: What an error says of a change that the service may have received.
_DOUBT = " It may have been done nevertheless; check before you try again."

#: The errors of problems, by the word that their type ends with.
_ERRORS: dict[str, type[BelatedError]] = {kind: error for error, kinds in PROBLEMS for kind in kinds}

#: Codes below 500 that say: later. All from 500 on say that the service, or a proxy before it, fails.
_RETRY_CODES = (408, 425, 429)


class ServiceReply(NamedTuple):
    """A reply of a service: its code, headers and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> JsonObject:
        """Return the JSON body as Python values."""
        try:
            content: JsonObject = json.loads(self.body)
        except (ValueError, RecursionError):
            raise StorageError(
                "The service's reply is not JSON; check that the address is that of a belated service."
            ) from None
        return content


class _UnsentError(Exception):
    """The service was not reached at all: nothing can have been done. With a final one, trying again is of no use."""

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        self.is_final = is_final


class ServiceConnection:
    """Sends requests to a service. It may be used by any number of threads.

    A request that cannot do anything twice is sent again after a lost reply, and every request is if it was not sent or
    the service says that it refused it unseen.

    Parameters
    ----------
    url : str
        The address, which begins with https:// or http://.
    token : str, optional
        By default that of the environment, BELATED_TOKEN.
    timeout : float
        Seconds that a call may take, with all that is tried again.
    retries : int
        How often a call is tried again.
    """

    def __init__(self, url: str, token: str | None, timeout: float | None, retries: int | None) -> None:
        self.name, self._host, self._port, self._prefix, self._context = _address(url)
        self._headers = {"Authorization": f"Bearer {_token(token)}", "User-Agent": "belated"}
        self.timeout = TIMEOUT if timeout is None else positive("timeout", timeout)
        self.retries = RETRIES if retries is None else whole("retries", retries, least=0)
        self._idle: deque[tuple[http.client.HTTPConnection, float]] = deque()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"ServiceConnection({self.name!r})"  # never the token

    def close(self) -> None:
        """Close the connections that wait to be used again."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].close()

    def __del__(self) -> None:
        if hasattr(self, "_idle"):
            self.close()

    def call(
        self,
        method: str,
        path: str,
        content: object = None,
        *,
        repeatable: bool = True,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        file: BinaryIO | None = None,
    ) -> ServiceReply:
        """Send a request, and return the reply; raise the error that the service's problem is.

        Parameters
        ----------
        method, path : str
        content : object
            What the body has as JSON.
        repeatable : bool
            Whether doing it twice is doing it once.
        timeout : float, optional
        headers : mapping, optional
        file : file, optional
            Where the body of a reply goes that is no problem, instead of into memory.
        """
        body = None if content is None else json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
        head = {**self._headers, **({} if body is None else {"Content-Type": "application/json"}), **(headers or {})}
        request = (method, self._prefix + path, body, head)
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        failure: Exception
        for again in range(self.retries + 1):
            try:
                reply = self._send(request, end, file, fresh=again > 0 or not repeatable)
            except _UnsentError as error:
                failure, wait, safe = StorageError(str(error)), None, not error.is_final
            except (OSError, http.client.HTTPException) as error:
                failure, wait, safe = self._lost(error, repeatable=repeatable), None, repeatable
            else:
                if not _says_later(reply):
                    return _checked(reply)
                failure, wait = _problem(reply, "" if repeatable else _DOUBT), _retry_after(reply)
                safe = repeatable or "#overloaded" in _member(reply, "type")
            pause = _pause(again) if wait is None else wait
            if not safe or again == self.retries or time.monotonic() + pause >= end:
                raise failure
            time.sleep(pause)
        raise AssertionError

    # ---------------------------------------------------------------- one try

    def _send(
        self, request: tuple[str, str, bytes | None, dict[str, str]], end: float, file: BinaryIO | None, *, fresh: bool
    ) -> ServiceReply:
        connection = self._connected(end, fresh=fresh)
        connection.response_class = functools.partial(_response, end)  # type: ignore[assignment]
        try:
            connection.sock.settimeout(_left(end))
            connection.request(*request)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            whole = _read(response, file if response.status < 300 else None)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))
        return ServiceReply(response.status, headers, whole)

    def _connected(self, end: float, *, fresh: bool) -> http.client.HTTPConnection:
        """Return a connection that is open: one that was used before, if it can be trusted, or a new one."""
        if os.getpid() != self._process:  # the parent's are not ours
            self.close()
            self._process = os.getpid()
        while not fresh:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                break
            if time.monotonic() - since < _IDLE and connection.sock is not None and not _has_news(connection.sock):
                return connection
            connection.close()
        connection = self._new(_left(end))
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            final = isinstance(error, ssl.SSLCertVerificationError)
            raise _UnsentError(f"The service {self.name} cannot be reached: {_why(error)}.", is_final=final) from None
        return connection

    def _new(self, timeout: float) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)

    def _lost(self, error: Exception, *, repeatable: bool) -> StorageError:
        doubt = "" if repeatable else _DOUBT
        return StorageError(f"The service {self.name} did not answer: {_why(error)}.{doubt}")


class _Received(io.RawIOBase):
    """What a socket receives until a time: a reply that comes in small pieces does not prolong the call."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock, self._raw, self._end = sock, sock.makefile("rb", buffering=0), end

    def makefile(self, _: str) -> io.BufferedReader:
        """Return what a response reads from, which takes this for its socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:  # a type that Python has a name for since 3.12
        """Receive the next piece."""
        self._sock.settimeout(_left(self._end))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Let go of the socket."""
        self._raw.close()
        super().close()


def _response(
    end: float, sock: socket.socket, debuglevel: int = 0, method: str | None = None
) -> http.client.HTTPResponse:
    """Return the reply that a socket is about to receive, until a time."""
    return http.client.HTTPResponse(cast("socket.socket", _Received(sock, end)), debuglevel, method)


def _left(end: float) -> float:
    """Return the seconds until a time, at least some."""
    return max(end - time.monotonic(), 0.001)


def _read(response: http.client.HTTPResponse, file: BinaryIO | None) -> bytes:
    """Return a body, or write it to a file."""
    if file is None:
        return response.read()
    file.seek(0)
    file.truncate()  # what an earlier try has left
    while part := response.read(_READ_BYTES):
        try:
            file.write(part)
        except OSError as error:
            raise StorageError(f"The copy cannot be written: {_why(error)}.") from None
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b""


def _has_news(sock: socket.socket) -> bool:
    """Whether the other side has said something unasked: that it closes the connection."""
    if not hasattr(select, "poll"):
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _pause(again: int) -> float:
    """Return a pause that grows, and differs between clients."""
    return min(_PAUSE * float(2**again), _LONGEST_PAUSE) * random.uniform(0.5, 1.5)  # noqa: S311


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({one_line(error.verify_message, 100).rstrip('.')})"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ssl.SSLError):
        what = (error.reason or "unknown reason").replace("_", " ").lower()
        return f"no encrypted connection can be made ({one_line(what, 100)})"
    if isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead):
        return "the connection was closed"
    if isinstance(error, http.client.HTTPException):
        return "what came back is not HTTP"
    text = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return one_line(text, 100).lower().rstrip(".")


# ---------------------------------------------------------------- what is given


def read_address(url: str, name: str = "place") -> str:
    """Return the address of a service, as messages show it; raise if it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise OptionError(f"{argument(name)} is not an address, such as https://experiments.example.org.") from None
    if parts.username is not None or parts.password is not None:
        raise OptionError(f"{argument(name)} has a name or password in it; give the token with {argument('token')}.")
    is_plain = url.isascii() and url.isprintable() and " " not in url and parts.scheme in ("https", "http")
    if not parts.hostname or parts.query or parts.fragment or not is_plain:
        raise OptionError(f"{argument(name)} must be an address alone, such as https://experiments.example.org.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _address(url: str) -> tuple[str, str, int | None, str, ssl.SSLContext | None]:
    """Return the parts of an address: as messages show it, host, port, path, and how it is encrypted."""
    address = read_address(url)
    parts = urlsplit(address)
    context = ssl.create_default_context() if parts.scheme == "https" else None
    return address, str(parts.hostname), parts.port, parts.path, context


def _token(token: str | None) -> str:
    secret = os.environ.get(VARIABLE) if token is None else token
    if not secret:
        raise OptionError(
            f"{argument('token')} is missing; give one that `belated live token create` printed, or set {VARIABLE}."
        )
    if not isinstance(secret, str) or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise OptionError(f"{argument('token')} is not a token; it must be as `belated live token create` printed it.")
    return secret


# ---------------------------------------------------------------- what comes back


def _checked(reply: ServiceReply) -> ServiceReply:
    """Return a reply that is not an error, or is a problem that the caller handles; otherwise raise the error."""
    if reply.status < 300 or reply.status == 304 or (reply.status == 409 and _member(reply, "arm")):
        return reply
    if reply.status < 400:
        raise LiveError(
            f"The service redirects to another address (code {reply.status}), to which the token is not sent."
        )
    raise _problem(reply)


def _says_later(reply: ServiceReply) -> bool:
    """Whether a reply says that the service, or a proxy before it, cannot do now what is asked."""
    return reply.status >= 500 or reply.status in _RETRY_CODES


def _problem(reply: ServiceReply, doubt: str = "") -> Exception:
    """Return a problem as the error that a storage would raise; a proxy's reply leaves it in doubt what was done."""
    detail = _member(reply, "detail") or f"The service answered with code {reply.status}.{doubt}"
    word = _member(reply, "type").rpartition("#")[2]
    usual: type[Exception] = StorageError if _says_later(reply) else LiveError
    return problem_error(word, detail, usual)


def problem_error(word: str, detail: str, usual: type[Exception] = LiveError) -> Exception:
    """Return the error of the word of a problem."""
    return _ERRORS.get(word, usual)(one_line(detail, 2000))


def _member(reply: ServiceReply, name: str) -> str:
    """Return a text of a problem, nothing if it has none."""
    try:
        text = json.loads(reply.body)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""


def _retry_after(reply: ServiceReply) -> float | None:
    """Return the seconds after which a service wants to be asked again, a little more so that clients come apart."""
    try:
        seconds = float(reply.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(seconds, 0.0) * random.uniform(1.0, 1.25) if seconds < 3600 else 3600.0  # noqa: S311
