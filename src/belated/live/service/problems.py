"""Problems: every error is a document of type application/problem+json, with a code and one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from belated.base.errors import BelatedError
from belated.base.text import one_line
from belated.live.errors import PROBLEMS, ProblemKind

PROBLEM_JSON = b"application/problem+json"


class ProblemDocument(msgspec.Struct):
    """What is wrong: a stable type, its title, the code, and one sentence."""

    type: str
    title: str
    status: int
    detail: str


class Kind(NamedTuple):
    """A kind of problem: its code and its title."""

    status: int
    title: str


#: The code and the title of every kind of problem.
KINDS: dict[ProblemKind, Kind] = {
    "malformed": Kind(400, "The request cannot be read"),
    "no-token": Kind(401, "A valid token is needed"),
    "scope": Kind(403, "The token does not allow this"),
    "other-experiment": Kind(403, "The token is for another experiment"),
    "cross-origin": Kind(403, "The request comes from another site"),
    "form": Kind(403, "The form has expired"),
    "not-found": Kind(404, "There is nothing here"),
    "unknown-experiment": Kind(404, "There is no such experiment"),
    "unknown-token": Kind(404, "There is no such token"),
    "method": Kind(405, "The method is not allowed here"),
    "slow": Kind(408, "The request took too long to arrive"),
    "contradiction": Kind(409, "The outcome contradicts another"),
    "not-running": Kind(409, "The experiment takes no new units"),
    "conflict": Kind(409, "The experiment refuses this now"),
    "no-rows": Kind(409, "There are no rows yet"),
    "closed": Kind(410, "The experiment is closed"),
    "too-large": Kind(413, "The request is too large"),
    "encoded": Kind(415, "The body is compressed"),
    "host": Kind(421, "The service has another name"),
    "invalid": Kind(422, "A value is refused"),
    "policy": Kind(422, "The policy fails"),
    "too-many": Kind(429, "There are too many requests"),
    "head": Kind(431, "The path and the headers are too large"),
    "internal": Kind(500, "Something is wrong with the service"),
    "overloaded": Kind(503, "The service is overloaded"),
    "not-ready": Kind(503, "The service is not ready"),
    "schema": Kind(503, "The storage needs another version of belated"),
    "storage": Kind(503, "The storage failed"),
}

#: Seconds after which to try again.
_RETRY_SECONDS: dict[ProblemKind, int] = {"overloaded": 1, "storage": 1, "too-many": 1, "not-ready": 1}


class Problem(Exception):  # noqa: N818 - it is an answer
    """A request that is refused, and why.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    detail : str
        One sentence.
    **headers : str
        Headers of the reply, with `_` for `-`.
    """

    def __init__(self, kind: ProblemKind, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail
        self.status, self.title = KINDS[kind]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if kind in _RETRY_SECONDS:
            self.headers.setdefault("retry-after", str(_RETRY_SECONDS[kind]))
        if kind == "no-token":
            self.headers["www-authenticate"] = "Bearer"

    def document(self) -> ProblemDocument:
        """Return the problem as a document."""
        return ProblemDocument(f"about:blank#{self.kind}", self.title, self.status, self.detail)

    def body(self) -> bytes:
        """Return the problem as JSON."""
        return msgspec.json.encode(self.document())


def problem_of(error: Exception) -> Problem:
    """Return an error of the library as a problem; details of other errors are not sent to the client."""
    if isinstance(error, Problem):
        return error
    for kind, problems in PROBLEMS:
        if isinstance(error, kind):
            return Problem(problems[0], str(error))
    if isinstance(error, BelatedError):
        return Problem("invalid", str(error))
    return Problem("internal", "The service failed; its log says where.")


# ---------------------------------------------------------------- bodies


_Content = TypeVar("_Content")


def decoded(decoder: msgspec.json.Decoder[_Content], body: bytes) -> _Content:
    """Return a body as the decoder's type, or raise a problem."""
    try:
        content = decoder.decode(body)
        _DECODER.raw_decode(body.decode().lstrip())
    except msgspec.ValidationError as error:
        raise Problem("invalid", _plain(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("malformed", _not_json(error, body)) from None
    except RecursionError:
        raise Problem("malformed", "The request is nested too deep.") from None
    return content


def _once(pairs: list[tuple[str, object]]) -> None:
    """Raise if an object has a key twice: the last value would count, and the sender may mean the first."""
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise Problem("invalid", f"The request has `{one_line(name, 100)}` more than once in an object; send it once.")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_int=float)

#: What JSON has, in words, by msgspec's names.
_TYPES = {
    "object": "an object", "array": "a list", "str": "text", "int": "a whole number", "float": "a number",
    "bool": "true or false", "null": "null", "datetime": "a time such as 2026-03-01T09:30:00Z",
}  # fmt: skip

#: Error messages of msgspec about a value, and the words that replace them after the value's name.
_REFUSALS: tuple[tuple[str, Callable[..., str]], ...] = (
    (r"Expected `(.+)`, got `(.+)`", lambda good, bad: f"must be {_types(good)}, not {_types(bad)}"),
    (r"Object missing required field `(.+)`", lambda name: f"lacks `{name}`"),
    (r"Object contains unknown field `(.+)`", lambda name: f"has no field `{one_line(name, 100)}`"),
    (r"Invalid enum value (.+)", lambda bad: f"cannot be {one_line(bad, 100)}; /openapi.json lists what it can be"),
    (r"Invalid RFC3339 encoded datetime", lambda: f"must be {_TYPES['datetime']}"),
    (r"(?:Number|Integer value) out of range", lambda: "is too large a number"),
)


def _plain(refusal: str) -> str:
    """Return msgspec's error on a body as a sentence."""
    what, _, path = refusal.rpartition(" - at `$")
    what, path = (what, path.removesuffix("`").removeprefix(".")) if what else (refusal, "")
    name = f"`{path}`" if path else "The request"
    for pattern, words in _REFUSALS:
        match = re.fullmatch(pattern, what, re.DOTALL)
        if match:
            return f"{name} {words(*match.groups())}."
    return f"{name} is refused: {one_line(what, 200)}."


def _types(names: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in names.split(" | "))


#: The first half of a character, which the text ends with.
_HALF_CHARACTER = re.compile(rb'\\u[dD][89abAB][0-9a-fA-F]{2}"')


def _not_json(error: Exception, body: bytes) -> str:
    """Return in a sentence why a body is not JSON."""
    if not body:
        return "The request has no body; send JSON."
    if isinstance(error, UnicodeDecodeError):
        return "The request is not UTF-8; send JSON in UTF-8."
    is_short = str(error) == "Input data was truncated"
    if "surrogate" in str(error) or (is_short and _HALF_CHARACTER.search(body)):
        return r"The request has half of a character, such as \ud83d alone; send whole characters."
    if is_short:
        return "The request is not JSON: it ends too early."
    why, _, place = str(error).removeprefix("JSON is malformed: ").removesuffix(")").partition(" (byte ")
    return f"The request is not JSON: {why} at byte {place}." if place else f"The request is not JSON: {why}."
