"""Requests to a service and its replies, as values that JSON has."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from belated.base.documents import JsonObject
from belated.base.errors import BelatedError, OptionError, argument
from belated.live.changing import Author
from belated.live.connecting import problem_error
from belated.live.errors import StorageError
from belated.live.records import Change, Decision, Tell, Told, Version, stamp
from belated.live.status import Status
from belated.live.store import Experiments
from belated.live.verifying import Verification

if TYPE_CHECKING:
    from belated.live.asking import UnitAsked
    from belated.simulation.policies import Policy

#: Units or outcomes of one request, and about how many bytes; more are sent in several.
_MOST_ITEMS, _MOST_BYTES = 10_000, 4 << 20

_Read = TypeVar("_Read")
_Item = TypeVar("_Item")
_Reply = TypeVar("_Reply")


def path_of(name: str, act: str = "") -> str:
    """Return the path of an experiment; its name is one percent-encoded part of the path."""
    part = quote(name, safe="").replace(".", "%2E")
    return f"/v1/experiments/{part}/{act}" if act else f"/v1/experiments/{part}"


# ---------------------------------------------------------------- what is sent


def policy_table(policy: Policy) -> JsonObject:
    """Return a policy as a table; one that is a Python function stays here."""
    from belated.simulation.description import policy_to

    if policy.name == "own":
        raise OptionError(
            f"{argument('policy')} is a Python function, which is not sent over HTTP; open the store itself to use it."
        )
    return policy_to(policy)


def asks_table(asks: Sequence[UnitAsked]) -> JsonObject:
    """Return an ask as a table: units or, if they have segments, both."""
    pairs = [ask for ask in asks if not isinstance(ask, str)]
    if not pairs:
        return {"units": list(asks)}
    return {"units": [unit for unit, _ in pairs], "segments": [segment for _, segment in pairs]}


def tell_table(tell: Tell) -> JsonObject:
    """Return an outcome as a table, without what is usual."""
    table: JsonObject = {"unit": tell.unit, "value": tell.value}
    if tell.key:
        table["key"] = tell.key
    if tell.happened_at is not None:
        at = tell.happened_at if tell.happened_at.tzinfo else tell.happened_at.replace(tzinfo=dt.UTC)
        table["happened_at"] = at.astimezone(dt.UTC).isoformat()
    return table | ({"correct": True} if tell.correct else {})


def who_table(author: str | None, reason: str) -> dict[str, str]:
    """Return who changes something, and why; without an author, the service takes the label of the token."""
    given = Author("somebody" if author is None else author, reason)
    return {**({} if author is None else {"author": given.author}), "reason": given.reason}


def batches(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """Give items in as few parts as a service takes."""
    part: list[_Item] = []
    size = 0
    for item in items:
        length = len(json.dumps(item, ensure_ascii=False).encode()) + 2
        if part and (len(part) == _MOST_ITEMS or size + length > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part


# ---------------------------------------------------------------- what comes back


def understood(read: Callable[[_Reply], _Read], reply: _Reply) -> _Read:
    """Return what a reply means; raise if it is not what this version knows."""
    try:
        return read(reply)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if isinstance(error, BelatedError):
            raise
        raise StorageError("The service's reply cannot be read; use the same version of belated.") from None


def read_decision(table: JsonObject) -> Decision:
    """Return a decision of its table; raise what it was refused with."""
    if table.get("problem") is not None:
        problem = table["problem"]
        raise problem_error(str(problem["type"]).rpartition("#")[2], str(problem["detail"]))
    return Decision(**_known(table, Decision._fields, "assigned_at"))


def read_told(table: JsonObject) -> Told:
    """Return an acknowledgement of its table."""
    return Told(**_known(table, Told._fields))


def read_version(table: JsonObject) -> Version:
    """Return a policy version of its table."""
    known = _known(table, [field.name for field in fields(Version)], "made_at")
    lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    return Version(**{**known, **lists, "made_at": stamp(known["made_at"])})


def read_change(table: JsonObject) -> Change:
    """Return an entry of the audit of its table."""
    return Change(**_known(table, [field.name for field in fields(Change)], "made_at"))


def read_status(table: JsonObject) -> Status:
    """Return a status of its table."""
    known = _known(table, [field.name for field in fields(Status)], "made_at")
    arms = tuple((each["arm"], each["state"], each["probability"]) for each in table["arms"])
    segments = tuple((each["segment"], each["units"], tuple(each["probabilities"])) for each in table["segments"])
    return Status(**known | {"arms": arms, "segments": segments})


def read_experiments(table: JsonObject) -> Experiments:
    """Return the experiments of a list of tables."""
    keys = ("name", "state", "arms", "asked")
    return Experiments(*([each[key] for each in table["experiments"]] for key in keys))


def read_verification(table: JsonObject) -> Verification:
    """Return what a check found, of its table."""
    return Verification(tuple(table["findings"]), table["decisions"], table["outcomes"], table["versions"])


def _known(table: JsonObject, names: Sequence[str], *times: str) -> JsonObject:
    """Return the entries that have these names; a later version may send more."""
    entries = {name: table[name] for name in names if name in table}
    return entries | {name: dt.datetime.fromisoformat(entries[name]) for name in times if entries.get(name) is not None}
