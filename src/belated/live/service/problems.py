"""Problems: every error is a document of type application/problem+json, with a code and one sentence."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from belated.base.errors import BelatedError, LogError, PolicyError
from belated.live.errors import (
    ClosedError,
    ContradictionError,
    LiveError,
    NotRunningError,
    OverloadedError,
    SchemaError,
    StorageError,
    UnknownExperimentError,
)

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


#: Every kind of problem, by the word that its type ends with.
KINDS: dict[str, Kind] = {
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

#: Which kind an error of the library is; the first that fits.
_ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (UnknownExperimentError, "unknown-experiment"),
    (ContradictionError, "contradiction"),
    (NotRunningError, "not-running"),
    (ClosedError, "closed"),
    (SchemaError, "schema"),
    (OverloadedError, "overloaded"),
    (StorageError, "storage"),
    (LiveError, "conflict"),
    (LogError, "no-rows"),
    (PolicyError, "policy"),
    (BelatedError, "invalid"),
)

#: Seconds after which to try again.
_AGAIN = {"overloaded": 1, "storage": 1, "too-many": 1, "not-ready": 1}


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

    def __init__(self, kind: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail
        self.status, self.title = KINDS[kind]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if kind in _AGAIN:
            self.headers.setdefault("retry-after", str(_AGAIN[kind]))
        if kind == "no-token":
            self.headers["www-authenticate"] = "Bearer"

    def document(self) -> ProblemDocument:
        """Return the problem as a document."""
        return ProblemDocument(f"about:blank#{self.kind}", self.title, self.status, self.detail)

    def body(self) -> bytes:
        """Return the problem as JSON."""
        return msgspec.json.encode(self.document())


def problem_of(error: Exception) -> Problem:
    """Return an error of the library as a problem; another one is not told to the client."""
    if isinstance(error, Problem):
        return error
    for kind, word in _ERRORS:
        if isinstance(error, kind):
            return Problem(word, str(error))
    return Problem("internal", "The service failed; its log says where.")


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Return a body as the decoder's type, or raise a problem."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Problem("invalid", f"The request is refused: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("malformed", f"The request is not JSON: {error}.") from None
    except RecursionError:
        raise Problem("malformed", "The request is nested too deep.") from None
