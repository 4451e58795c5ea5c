"""Tokens: who may ask, tell, read and change over HTTP. A storage keeps only their hashes."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, get_args

from belated.base.checks import one_of
from belated.base.columns import Row
from belated.base.documents import json_text
from belated.base.errors import OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.live.design import read_text, snapshot
from belated.live.errors import LiveError
from belated.live.records import moment
from belated.live.storage import Session, Storage
from belated.log.durations import read_duration

Scope = Literal["ask", "tell", "read", "units", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

#: A token of a program, the link with which a person logs in once, and the session token of the browser after that.
TokenKind = Literal["token", "link", "browser"]

#: How long each is valid, if nothing else is said.
LASTING = {"token": "365d", "link": "10min", "browser": "12h"}

#: How tokens begin, so that people and scanners of secrets recognise one.
_PREFIX = "belated_"
_BYTES = 32
_SECOND = 1_000_000

_COLUMNS = "t.id, t.kind, t.digest, t.label, t.scopes, e.name, t.author, t.made_at, t.expires_at, t.ended_at"
_FROM_TOKENS = "from token t left join experiment e on e.id = t.experiment"


@dataclass(frozen=True, slots=True)
class Token:
    """A token's properties, never the token itself.

    Attributes
    ----------
    id : int
    kind : {"token", "link", "browser"}
    label : str
        Whose it is; the author of changes that are made with it.
    scopes : frozenset of str
    experiment : str or None
        The only experiment that it is for.
    author : str
        Who made it.
    made_at : datetime
    expires_at : datetime or None
    ended_at : datetime or None
        When it was revoked or, for a link, used.
    """

    id: int
    kind: TokenKind
    label: str
    scopes: frozenset[Scope]
    experiment: str | None
    author: str
    made_at: dt.datetime
    expires_at: dt.datetime | None
    ended_at: dt.datetime | None

    def is_valid(self, now: dt.datetime) -> bool:
        """Whether it can be used at a time."""
        return self.ended_at is None and (self.expires_at is None or now < self.expires_at)

    def to_dict(self) -> dict[str, object]:
        """Return its properties as values that JSON has."""
        return {
            "id": self.id, "kind": self.kind, "label": self.label, "scopes": scopes_in_order(self.scopes),
            "experiment": self.experiment, "author": self.author, "made_at": self.made_at.isoformat(),
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
            "ended_at": None if self.ended_at is None else self.ended_at.isoformat(),
        }  # fmt: skip


class Tokens(Table):
    """The tokens of a store; iterates over `Token`."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def to_json(self) -> str:
        """Return the tokens as JSON, as docs/json.md describes it."""
        return json_text("tokens", {"tokens": [each.to_dict() for each in self._tokens]})

    def _title(self) -> str:
        return count(len(self._tokens), "token")

    def _columns(self) -> list[Column]:
        tokens = self._tokens
        return [
            Column("id", [str(each.id) for each in tokens], "label"),
            Column("kind", [each.kind for each in tokens], "label"),
            Column("label", [each.label for each in tokens], "label"),
            Column("scopes", [",".join(scopes_in_order(each.scopes)) for each in tokens], "label"),
            Column("experiment", [each.experiment or "–" for each in tokens], "label"),
            Column("author", [each.author for each in tokens], "label"),
            Column("expires_at", [_shown(each.expires_at) for each in tokens], "label"),
            Column("ended_at", [_shown(each.ended_at) for each in tokens], "label"),
        ]


def _shown(at: dt.datetime | None) -> str:
    return "–" if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


def scopes_in_order(scopes: Iterable[str]) -> list[Scope]:
    """Return scopes in their usual order."""
    given = set(scopes)
    return [scope for scope in SCOPES if scope in given]


def digest_of(secret: str) -> bytes:
    """Return the hash of a token; it has 256 random bits, so that a plain hash cannot be turned back."""
    return blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=32, person=b"belated token").digest()


def make_token(
    storage: Storage,
    label: str,
    scopes: Iterable[str],
    *,
    author: str,
    experiment: str | None = None,
    lasting: str | None = None,
    kind: TokenKind = "token",
) -> tuple[str, Token]:
    """Make a token; return it, which is possible only once, and its properties.

    Parameters
    ----------
    storage : Storage
    label : str
        Whose it is, such as "checkout".
    scopes : iterable of str
        Some of ask, tell, read, units, admin.
    author : str
        Who makes it.
    experiment : str, optional
        The only experiment that it is for; by default all.
    lasting : str, optional
        How long it is valid, such as "30d", or "never" for one that does not expire.
    kind : {"token", "link", "browser"}
    """
    with storage.writing() as session:
        return add_token(
            session, label, scopes, author=author, experiment=experiment, lasting=lasting, kind=kind
        )  # fmt: skip


def add_token(
    session: Session,
    label: str,
    scopes: Iterable[str],
    *,
    author: str,
    experiment: str | None = None,
    lasting: str | None = None,
    kind: TokenKind = "token",
) -> tuple[str, Token]:
    """Make a token in a transaction, see `make_token`."""
    read_text("label", label)
    read_text("author", author)
    wanted = scopes_in_order([one_of("scopes", scope, SCOPES) for scope in scopes])
    if not wanted:
        raise OptionError(f"{argument('scopes')} is empty; it must name some of {', '.join(SCOPES)}.")
    about = None if experiment is None else snapshot(session, experiment)
    expires = _expiry(session.now, LASTING[kind] if lasting is None else lasting)
    secret = _PREFIX + secrets.token_urlsafe(_BYTES)
    (key,) = session.new_ids(1)
    session.add(
        "token",
        [
            (key, kind, digest_of(secret), label, ",".join(wanted), None if about is None else about.id, author,
             session.now, expires, None)
        ],
    )  # fmt: skip
    token = Token(
        id=key,
        kind=kind,
        label=label,
        scopes=frozenset(wanted),
        experiment=experiment,
        author=author,
        made_at=moment(session.now),
        expires_at=None if expires is None else moment(expires),
        ended_at=None,
    )
    return secret, token


def _expiry(now: int, lasting: str) -> int | None:
    if lasting == "never":
        return None
    window = read_duration(lasting, "expires", otherwise="never")
    if window.length > 36_500 * 86_400 * _SECOND:
        raise OptionError(f"{argument('expires')} is {lasting!r}; it must be at most 100 years.")
    return now + int(window.length)


def all_tokens(session: Session) -> dict[bytes, Token]:
    """Return every token by its hash, also those that have ended or expired."""
    return {bytes(row[2]): _token(row) for row in session.run(f"select {_COLUMNS} {_FROM_TOKENS}")}


def tokens(storage: Storage) -> Tokens:
    """Return the tokens of a store, also those that were revoked or have expired, without links and browsers."""
    with storage.reading() as session:
        rows = session.run(f"select {_COLUMNS} {_FROM_TOKENS} where t.kind = 'token' order by t.id")
    return Tokens([_token(row) for row in rows])


def revoke(storage: Storage, key: int) -> bool:
    """End a token; return whether it was valid before."""
    with storage.writing() as session:
        if not session.run("select 1 from token where id = ?", key):
            raise LiveError(f"There is no token {key}; `belated live token list` shows them.")
        ended = session.run(
            "update token set ended_at = ? where id = ? and ended_at is null returning id", session.now, key
        )
    return bool(ended)


def use_link(storage: Storage, secret: str) -> tuple[str, Token] | None:
    """Exchange a link's code for a browser's session token; None if it was used before, or is not valid."""
    with storage.writing() as session:
        ended = session.run(
            "update token set ended_at = ? where digest = ? and kind = 'link' and ended_at is null and "
            "(expires_at is null or expires_at > ?) returning id",
            session.now, digest_of(secret), session.now,
        )  # fmt: skip
        if not ended:
            return None
        session.run("delete from token where kind <> 'token' and expires_at < ?", session.now - 86_400 * _SECOND)
        ((*row,),) = session.run(f"select {_COLUMNS} {_FROM_TOKENS} where t.id = ?", ended[0][0])
        link = _token(tuple(row))
        return add_token(
            session, link.label, link.scopes, author=link.author, experiment=link.experiment, kind="browser"
        )  # fmt: skip


def _token(row: Row) -> Token:
    key, kind, _, label, scopes, experiment, author, made_at, expires_at, ended_at = row
    return Token(
        id=key,
        kind=kind,
        label=label,
        scopes=frozenset(scopes_in_order(str(scopes).split(","))),
        experiment=experiment,
        author=author,
        made_at=moment(made_at),
        expires_at=None if expires_at is None else moment(expires_at),
        ended_at=None if ended_at is None else moment(ended_at),
    )
