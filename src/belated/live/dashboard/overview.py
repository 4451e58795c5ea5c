"""`ExperimentOverview`: how an experiment is doing right now, read from a few rows."""

from __future__ import annotations

from dataclasses import dataclass

from belated.live.design import snapshot
from belated.live.experiment import Experiment
from belated.live.records import stamp
from belated.live.status import Status

_MINUTE = 60_000_000


@dataclass(frozen=True)
class ExperimentOverview:
    """How an experiment is doing.

    Attributes
    ----------
    status : Status
    per_minute : float or None
        Units asked in the last minute; None unless it runs.
    out : int or None
        Outcomes that were not told: still out or, once it is closed, never known; None of events, whose windows only
        an answer counts.
    age : float or None
        Seconds since the current policy version was made; None before the start.
    final : str or None
        The arm that later units get, if it has stopped with one.
    """

    status: Status
    per_minute: float | None
    out: int | None
    age: float | None
    final: str | None


def read_overview(exp: Experiment) -> ExperimentOverview:
    """Read how an experiment is doing."""
    status = exp.status()
    with exp._store.storage.reading() as session:
        now = session.now
        before = session.run(
            "select step, made_at from version where experiment = ? and (made_at <= ? or number = 1) "
            "order by number desc limit 1",
            exp._id, now - _MINUTE,
        )  # fmt: skip
        about = snapshot(session, exp.name) if status.state == "stopped" else None
    final = None if about is None or about.final is None else about.labels[about.final]
    rate = None
    if status.state == "running" and before:
        # rows after a version make the next one within seconds: those that it does not have came in the last minute
        ((step, made_at),) = before
        rate = max(status.asked - (step - 1), 0) * _MINUTE / max(min(now - made_at, _MINUTE), 1_000_000)
    out = None if exp.setup.outcome.is_events else max(status.asked - status.told, 0)
    age = None if status.made_at is None else max(now - stamp(status.made_at), 0) / 1e6
    return ExperimentOverview(status=status, per_minute=rate, out=out, age=age, final=final)
