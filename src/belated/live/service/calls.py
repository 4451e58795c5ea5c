"""`Call`: a request as its route gets it; `Reply`: what the route returns."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar, TypeVarTuple
from urllib.parse import parse_qs, unquote_to_bytes

import msgspec

from belated.live.experiment import Experiment
from belated.live.service.access import Headers
from belated.live.service.problems import Problem
from belated.live.service.service import Service
from belated.live.tokens import Scope, Token

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")
_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")

#: Writes JSON.
encode = msgspec.json.Encoder().encode

JSON = "application/json"

#: The methods of routes.
Method = Literal["GET", "POST", "DELETE"]

#: The most options of a query.
_OPTIONS = 20


class Reply(NamedTuple):
    """What a route returns: a body, or its parts one after another."""

    body: bytes | AsyncIterable[bytes]
    status: int = 200
    media: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def json_reply(content: object, status: int = 200) -> Reply:
    """Return content as JSON."""
    return Reply(encode(content), status)


@dataclass(slots=True)
class Call:
    """A request that may be served: it has the scopes of its route.

    Attributes
    ----------
    service : Service
    name : str
        What the path names: an experiment, or a token's number.
    token : Token or None
        Whose request it is; None on routes that are open.
    content : msgspec.Struct or None
        The body, as the type that the route takes.
    """

    service: Service
    name: str
    token: Token | None
    content: Any
    query: bytes
    headers: Headers

    @property
    def owner(self) -> Token:
        """The token of a route that is not open."""
        assert self.token is not None  # noqa: S101 - it was checked
        return self.token

    def experiment(self) -> Awaitable[Experiment]:
        """Return the experiment that the path names."""
        return self.service.experiment(self.name)

    def thread(self, act: Callable[[*_Arguments], _Result], *arguments: *_Arguments) -> Awaitable[_Result]:
        """Run a function that waits for the storage in a thread."""
        return self.service.thread(act, *arguments)

    def option(self, name: str, default: str) -> str:
        """Return an option of the query."""
        try:
            values = parse_qs(self.query.decode("latin-1"), keep_blank_values=True, max_num_fields=_OPTIONS).get(name)
        except ValueError:
            raise Problem("malformed", f"The query has more than {_OPTIONS} options; send fewer.") from None
        return default if values is None else values[-1]

    def number(self, name: str, default: int, most: int) -> int:
        """Return an option of the query that is a whole number from 0."""
        text = self.option(name, str(default))
        if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) > most:
            raise Problem("invalid", f"`{name}` must be a whole number from 0 to {most}.")
        return int(text)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route: a method, a path in which `{name}` stands for one part, and what may go in and out.

    Attributes
    ----------
    method : {"GET", "POST", "DELETE"}
    path : str
    handle : callable
    summary : str
    scopes : tuple of str
        What a token needs; nothing: the route is open.
    whole : bool
        Whether the token must be for the whole store; otherwise the route looks at its experiment itself.
    takes : type or None
        The type of the body.
    gives : type or None
        The type of the reply, if it is JSON of a fixed form.
    stopped : type or None
        The type of its reply if the experiment takes no units, where that says more than other problems do.
    codes : tuple of int
        The codes of its replies; those that every route can have are left out.
    many : bool
        Whether the body may be as large as one with many units.
    media : tuple of str
        The media types of its reply.
    options : tuple of (name, meaning)
        The options of its query.
    """

    method: Method
    path: str
    handle: Callable[[Call], Awaitable[Reply]]
    summary: str
    scopes: tuple[Scope, ...] = ()
    whole: bool = True
    takes: type[msgspec.Struct] | None = None
    gives: type[msgspec.Struct] | None = None
    stopped: type[msgspec.Struct] | None = None
    codes: tuple[int, ...] = (200,)
    many: bool = False
    media: tuple[str, ...] = (JSON,)
    options: tuple[tuple[str, str], ...] = ()


def has_tag(given: str, tag: str) -> bool:
    """Whether a client's If-None-Match has this tag; proxies may have made the tag weak."""
    return given.strip() == "*" or tag in (each.strip().removeprefix("W/") for each in given.split(","))


@lru_cache(maxsize=64)
def read_name(part: bytes) -> str:
    """Return the name that a part of a path stands for; it may have any characters, also `/` and `..`."""
    if _PERCENT.search(part):
        raise Problem(
            "malformed", "The path has a `%` that is not followed by two hexadecimal digits; write it as %25."
        )
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Problem("malformed", "The path is not UTF-8; percent-encode the name as UTF-8.") from None
