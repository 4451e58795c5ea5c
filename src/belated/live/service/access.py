"""Access: from where a request may come, and whose it is."""

from __future__ import annotations

import asyncio
import datetime as dt
import hmac
import time
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from belated.live.records import moment
from belated.live.service import journal
from belated.live.service.problems import Problem
from belated.live.service.settings import Settings
from belated.live.storage import Storage, system_clock
from belated.live.tokens import Scope, Token, all_tokens, digest_of

if TYPE_CHECKING:
    from starlette.types import Scope as AsgiScope

#: Seconds after which tokens are read again, and the shortest time between two readings.
_FRESH, _LEAST = 2.0, 0.05

#: Seconds after which nothing is believed that was read before.
_STALE_SECONDS = 30.0

#: What a browser keeps.
COOKIE = "belated_browser"

#: Methods that change nothing.
SAFE = ("GET", "HEAD")

#: Headers that a request may have once: a proxy on the way may have believed the first, and we would believe the last.
_SINGLE_HEADERS = (b"host", b"authorization", b"origin", b"sec-fetch-site", b"content-encoding", b"transfer-encoding")

Headers = dict[bytes, bytes]


# ---------------------------------------------------------------- where it comes from


def check_request(method: str, headers: Headers, settings: Settings) -> None:
    """Raise unless a request is for this service, from no other site, and its body is sent as it is."""
    check_host(headers, settings)
    check_origin(method, headers)
    check_encoding(headers)


def check_host(headers: Headers, settings: Settings) -> None:
    """Raise unless a request is for a name of the service: another site's name may have been made to lead here."""
    if not _is_one_of(settings.hosts, headers.get(b"host", b"")):
        raise Problem("host", "The request is for another host than this service; use one of the service's host names.")


@lru_cache(maxsize=64)
def _is_one_of(hosts: tuple[str, ...], given: bytes) -> bool:
    """Whether a header names one of these hosts, with a port or without."""
    host = given.decode("latin-1").lower()
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    return name in hosts and (port or "0").isdecimal()


def check_origin(method: str, headers: Headers) -> None:
    """Raise if another site's page sends a request that changes something."""
    if method in SAFE:
        return
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"none")
    own = origin is None or origin.lower().partition(b"://")[2] == headers.get(b"host", b"").lower()
    if not own or site not in (b"same-origin", b"none"):
        raise Problem("cross-origin", "A page of another site may not send this; send it from the service's own pages.")


def check_encoding(headers: Headers) -> None:
    """Raise if a body is not sent as it is."""
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Problem("encoded", "The body is compressed; send it as it is, without `Content-Encoding`.")
    if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        raise Problem("malformed", "The transfer encoding of the body is not supported; send the body with its length.")


# ---------------------------------------------------------------- whose it is


class Keyring:
    """The tokens of a store, read again every few seconds; a token that is known never waits for the storage.

    Parameters
    ----------
    storage : Storage
    executor : Executor
        Where the storage is read.
    """

    def __init__(self, storage: Storage, executor: Executor) -> None:
        self._storage, self._executor = storage, executor
        self._tokens: dict[bytes, Token] = {}
        self._digests: dict[str, bytes] = {}
        self._read_at = -1e9
        self._reading: asyncio.Task[None] | None = None
        self._is_failing = False

    async def find(self, secret: str, kind: str) -> Token:
        """Return a valid token of a kind, or raise a problem."""
        digest = self._digests.get(secret) or digest_of(secret)
        token = self._tokens.get(digest)
        age = time.monotonic() - self._read_at
        if token is None or age > _STALE_SECONDS:
            await asyncio.sleep(_LEAST - age)  # whoever guesses waits, and the storage is spared
            await self._read()
            token = self._tokens.get(digest)
        elif age > _FRESH:
            self._begin()
        if token is None or token.kind != kind:
            raise _ended(kind, "The token is not known; make one")
        if secret not in self._digests and len(self._digests) < 10_000:
            self._digests[secret] = digest
        if not token.is_valid(self._now()):
            why = "has expired" if token.ended_at is None else "was revoked"
            raise _ended(kind, f"The token {why}; make a new one")
        return token

    def forget(self) -> None:
        """Read the tokens again before the next request: they were changed here."""
        self._read_at = -1e9

    def _now(self) -> dt.datetime:
        return moment((self._storage.clock or system_clock)())

    def _begin(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._load())
            self._reading.add_done_callback(self._note)
        return self._reading

    def _note(self, reading: asyncio.Task[None]) -> None:
        """Note the first of several failures; nobody may have waited for the tokens."""
        error = None if reading.cancelled() else reading.exception()
        if isinstance(error, Exception) and not self._is_failing:
            journal.failed("(tokens)", error)
        self._is_failing = error is not None

    async def _read(self) -> None:
        await asyncio.shield(self._begin())

    async def _load(self) -> None:
        began = time.monotonic()
        self._tokens = await asyncio.get_running_loop().run_in_executor(self._executor, self._stored_tokens)
        self._digests.clear()
        self._read_at = began

    def _stored_tokens(self) -> dict[bytes, Token]:
        with self._storage.reading() as session:
            return all_tokens(session)


def _ended(kind: str, words: str) -> Problem:
    """Return a problem that says how to go on, to a program or to a browser."""
    if kind == "browser":
        return Problem("no-token", "You are logged out; open a link that `belated live token link` prints.")
    return Problem("no-token", f"{words} with `belated live token create`.")


def bearer(headers: Headers) -> str:
    """Return the token of a request, or raise a problem."""
    kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() != "bearer" or not secret:
        raise Problem("no-token", "The request has no token; send the header `Authorization: Bearer TOKEN`.")
    return secret.strip()


def cookie(headers: Headers) -> str | None:
    """Return the browser's session token, or None if it has logged out."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None


def check_scopes(token: Token, scopes: Iterable[Scope], experiment: str | None) -> None:
    """Raise unless a token has all scopes, for the experiment or, if there is None, for the whole store."""
    missing = [scope for scope in scopes if scope not in token.scopes]
    if missing:
        raise Problem("scope", f"The token lacks the scope {missing[0]}; use one that has it.")
    if token.experiment is not None and token.experiment != experiment:
        what = "another experiment" if experiment is not None else "one experiment, and this concerns the whole store"
        raise Problem("other-experiment", f"The token is for {what}; use one that is not restricted.")


def form_key(secret: str) -> str:
    """Return the secret that the forms of a browser's pages contain, so that other sites cannot send them."""
    return blake2b(digest_size=16, key=digest_of(secret), person=b"belated form").hexdigest()


def check_form(secret: str, given: str) -> None:
    """Raise unless a form was made for this browser."""
    if not hmac.compare_digest(form_key(secret).encode(), given.encode("utf-8", "surrogatepass")):
        raise Problem("form", "The form is from another login; load its page again, and send it once more.")


class Rates:
    """How many requests each token has left: it gets a number per second, and can save those of one second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._left: dict[int, tuple[float, float]] = {}

    def take(self, token: Token) -> None:
        """Raise if a token has sent too much."""
        if self._rate is None:
            return
        now = time.monotonic()
        left, at = self._left.get(token.id, (max(self._rate, 1.0), now))
        left = min(left + (now - at) * self._rate, max(self._rate, 1.0))
        if left < 1:
            self._left[token.id] = left, now
            wait = max(1, round((1 - left) / self._rate))
            raise Problem("too-many", f"The token may send {self._rate:g} requests a second.", retry_after=str(wait))
        self._left[token.id] = left - 1, now


def headers_of(scope: AsgiScope) -> Headers:
    """Return the headers of a request by name; raise if a header that may occur once occurs twice."""
    given = scope["headers"]
    headers: Headers = dict(given)
    if len(headers) < len(given):
        names = [name for name, _ in given]
        for name in _SINGLE_HEADERS:
            if names.count(name) > 1:
                raise Problem(
                    "malformed", f"The request has the header `{name.decode()}` more than once; send it once."
                )
    return headers
