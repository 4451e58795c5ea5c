"""Erasing: a unit is replaced by a random name; its arm, version and outcome stay, so that answers do not change."""

from __future__ import annotations

import secrets

from belated.base.columns import Row
from belated.live.design import TOMBSTONE as _TOMBSTONE
from belated.live.design import snapshot
from belated.live.draws import erased_digest
from belated.live.storage import Session


def erase(session: Session, name: str, unit: str) -> bool:
    """Forget a unit; return whether there was anything to forget."""
    about = snapshot(session, name)
    decided = _forget_decision(session, about.id, unit)
    parked = session.run(
        "delete from parked where experiment = ? and unit = ? returning key, arrived_at", about.id, unit
    )
    decided = decided or _forget_decision(session, about.id, unit)  # it may have been asked while this waited
    erased_at = max([session.now, *(at for _, at in (*decided, *parked))])  # also after a clock was set back
    digest = erased_digest(about.salt, unit)
    session.run(
        "insert into erasure (experiment, digest, erased_at) values (?, ?, ?) "
        "on conflict (experiment, digest) do update set erased_at = excluded.erased_at",
        about.id, digest, erased_at,
    )  # fmt: skip
    return bool(decided or parked)


def _forget_decision(session: Session, experiment: int, unit: str) -> list[Row]:
    """Give a unit's decision and its keys random names; return its number and time, if there is one."""
    rows = session.run("select id, assigned_at from decision where experiment = ? and unit = ?", experiment, unit)
    for decision, _ in rows:  # once it is locked, whoever stores its outcomes waits
        session.run("update decision set unit = ? where id = ?", _TOMBSTONE + secrets.token_hex(16), decision)
        keys = session.run("select distinct key from outcome where decision = ? and key <> ''", decision)
        for (key,) in keys:  # an order's number may name a person, too
            new = secrets.token_hex(8)
            session.run("update outcome set key = ? where decision = ? and key = ?", new, decision, key)
    return rows


def is_tombstone(unit: str) -> bool:
    """Whether a unit's name is that of an erased one; no unit that is asked begins so."""
    return unit.startswith(_TOMBSTONE)


def forget_again(session: Session, digests: dict[str, dict[bytes, int]]) -> int:
    """Erase in a restored store what had been erased since the backup; return how many units that were.

    `digests` has, by experiment, the keyed hash of each erased unit and when it was erased.
    """
    forgotten = 0
    for name, erased in digests.items():
        stored = session.run("select id, salt from experiment where name = ?", name)
        if not stored:
            continue
        key, salt = stored[0][0], bytes(stored[0][1])
        rows = session.run("select unit, assigned_at from decision where experiment = ?", key)
        rows += session.run("select unit, arrived_at from parked where experiment = ?", key)
        for unit, at in rows:
            if not is_tombstone(unit) and erased.get(erased_digest(salt, unit), -1) >= at:
                forgotten += erase(session, name, unit)
    return forgotten


def erased_units(session: Session) -> dict[str, dict[bytes, int]]:
    """Return the keyed hash of each erased unit, and when it was erased, by experiment."""
    rows = session.run("select e.name, x.digest, x.erased_at from erasure x join experiment e on e.id = x.experiment")
    digests: dict[str, dict[bytes, int]] = {}
    for name, digest, at in rows:
        digests.setdefault(name, {})[bytes(digest)] = at
    return digests
