"""Verifying: every decision is drawn again, every version made again, every rule of the log checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from belated.base.checks import tolerance
from belated.base.documents import JsonObject, json_text
from belated.base.errors import BelatedError, PolicyError
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.live.deciding import decide
from belated.live.design import Setup, Snapshot, snapshot, versions
from belated.live.draws import choose, cumulative, uniform
from belated.live.erasing import is_tombstone
from belated.live.errors import LiveError, legible
from belated.live.learning import known_at, last_arrival, learn, nothing
from belated.live.records import Version
from belated.live.schema import COLUMNS, TABLES
from belated.live.storage import Session
from belated.live.ticking import FindPolicy, remaining, with_knowledge

#: How far a probability may be from its replay: other machines and versions round differently.
_TOLERANCE = 1e-9

#: Rows that are drawn again at a time.
_BATCH = 50_000


@dataclass(frozen=True, repr=False)
class Verification(Table):
    """What a check of a store found; `clean` if every rule holds.

    Attributes
    ----------
    findings : tuple of str
        What does not hold, in one sentence each.
    decisions, outcomes, versions : int
        How many of each were checked.
    """

    findings: tuple[str, ...]
    decisions: int
    outcomes: int
    versions: int

    @property
    def clean(self) -> bool:
        """Whether every rule holds."""
        return not self.findings

    def to_text(self, *, every: bool = False) -> str:
        """Return text for a terminal: one line if every rule holds."""
        return self._title() if self.clean else super().to_text(every=every)

    def to_dict(self) -> JsonObject:
        """Return the result as values that JSON has."""
        return {
            "clean": self.clean, "findings": list(self.findings), "decisions": self.decisions,
            "outcomes": self.outcomes, "versions": self.versions,
        }  # fmt: skip

    def to_json(self) -> str:
        """Return the result as JSON, as docs/json.md describes it."""
        return json_text("verification", self.to_dict())

    def _title(self) -> str:
        checked = f"{count(self.decisions, 'decision')}, {count(self.outcomes, 'outcome')} and "
        checked += count(self.versions, "version")
        return f"{checked} checked: {'clean' if self.clean else count(len(self.findings), 'finding')}"

    def _columns(self) -> list[Column]:
        return [Column("finding", list(self.findings), "sentence")]


def verify(session: Session, find_policy: FindPolicy) -> Verification:
    """Check every experiment of a store."""
    session.known = None  # everything is read from the storage
    findings: list[str] = []
    decisions = outcomes = version_count = 0
    for (name,) in session.run("select name from experiment order by id"):
        try:
            with legible("a row"):
                about = snapshot(session, name)
                listed = versions(session, about.id)
                faults = [*_check_audit(session, about, listed)]
                faults += _check_versions(session, about, listed, find_policy)
                decided, wrong = _check_decisions(session, about, listed)
                told, odd = _check_outcomes(session, about)
        except LiveError as error:
            findings.append(f"{name!r}: {error}")
            continue
        findings += [f"{name!r}: {each}" for each in (*faults, *wrong, *odd)]
        decisions, outcomes, version_count = decisions + decided, outcomes + told, version_count + len(listed)
    findings += _check_orphans(session)
    return Verification(tuple(findings), decisions, outcomes, version_count)


def _check_orphans(session: Session) -> Iterator[str]:
    """Find rows of experiments that are not there."""
    for table in (each for each in TABLES if "experiment" in COLUMNS[each] and each != "token"):
        ((rows,),) = session.run(
            f"select count(*) from {table} where experiment not in (select id from experiment)"  # noqa: S608
        )
        if rows:
            yield f"{count(rows, table)} of an experiment that is not there"


# ---------------------------------------------------------------- the audit


@dataclass
class _Noted:
    """The state of an experiment according to its list of changes."""

    arms: dict[str, str] = field(default_factory=dict)
    segments: list[str] = field(default_factory=list)
    policies: list[object] = field(default_factory=list)
    created: bool = False
    started: bool = False
    state: str = "draft"
    final: str | None = None
    setup: Setup | None = None

    def take(self, what: str, detail: JsonObject) -> None:
        """Take note of a change."""
        if what == "create":
            self.arms = dict.fromkeys(detail["arms"], "offered")
            self.segments = detail.get("segments", [])
            self.created = True
            if "setup" in detail:  # stores of older versions do not have it
                self.setup = Setup.from_dict(detail["setup"])
        if what in ("create", "set policy"):
            self.policies.append(detail["policy"])
        if what == "add segment":
            self.segments.append(detail["segment"])
        if what in _ARM_STATES:
            self.arms[detail["arm"]] = _ARM_STATES[what]
        self.started = self.started or what == "start"
        if what in _STATES:
            self.state = _STATES[what]
            self.final = detail.get("final", self.final)


_ARM_STATES = {"add arm": "offered", "resume arm": "offered", "pause arm": "paused", "drop arm": "dropped"}
_STATES = {"start": "running", "import": "running", "stop": "stopped", "close": "closed"}


def _check_audit(session: Session, about: Snapshot, listed: list[Version]) -> Iterator[str]:
    """Compare an experiment with its list of changes."""
    noted = _Noted()
    with legible("the list of changes"):
        rows = session.run("select what, detail from change where experiment = ? order by id", about.id)
        for what, text in rows:
            noted.take(what, json.loads(text))
    if not noted.created:
        yield "its creation is not in the list of changes"
        return
    if noted.state == "draft" and listed and listed[0].cause == "import":  # older versions did not note it
        noted.state = "running"
    rules = session.run("select policy from rule where experiment = ? order by number", about.id)
    with legible("a policy"):
        policies = [json.loads(str(text)) for (text,) in rules]
    compared = {
        "arms are": (list(noted.arms), list(about.labels)),
        "arms' states are": (list(noted.arms.values()), [arm.state for arm in about.arms]),
        "segments are": (noted.segments, list(about.segments)),
        "policies are": (noted.policies, policies),
    }
    for what, (noted_value, stored_value) in compared.items():
        if noted_value != stored_value:
            yield f"its {what} not those of the list of changes"
    if noted.final != (None if about.final is None else about.labels[about.final]):
        yield "its final arm is not that of the list of changes"
    if noted.state != about.state:
        yield f"it is {about.state}, and {noted.state} by the list of changes"
    if noted.setup is not None and noted.setup != about.setup:
        yield "what was fixed at its creation is not that of the list of changes"
    if noted.started and any(version.cause == "import" for version in listed):
        yield "it has imported versions, and was started by the list of changes"
    if listed and (listed[-1].offered, listed[-1].rule) != (about.offered, len(rules)):
        yield "its last version is not of the last change of its arms or its policy"


# ---------------------------------------------------------------- versions


def replay(session: Session, name: str, find_policy: FindPolicy) -> list[Version]:
    """Make every version of an experiment again, from the rows that each had seen."""
    about = snapshot(session, name)
    remade: list[Version] = []
    for version in versions(session, about.id):
        remade.append(_replayed(session, about, remade[-1] if remade else None, version, find_policy))
    return remade


def _replayed(
    session: Session, about: Snapshot, before: Version | None, after: Version, find_policy: FindPolicy
) -> Version:
    """Make a version again from the one before."""
    if after.cause == "import":
        return after
    arms, segments = after.arms, len(after.steps)
    known = nothing(arms, segments) if before is None else known_at(before, arms, segments)
    if before is not None and after.cause == "tick":
        known = learn(session, about.id, about.setup.outcome, before, after, known)
    policy = find_policy(session, about.id, after.rule)
    p = list(after.probabilities)
    if policy.name != "own":  # a user's function is not stored, and may have been another one then
        try:
            names = about.segments[:segments]
            p = decide(policy, about.labels[:arms], after.offered, known, about.setup.planned, names)
        except PolicyError:
            if before is not None:
                p = remaining(before, after.offered, arms, segments)
    return with_knowledge(after, known, p)


def _check_versions(session: Session, about: Snapshot, listed: list[Version], find_policy: FindPolicy) -> Iterator[str]:
    before: Version | None = None
    if not listed and about.state in ("running", "stopped"):
        yield "version 1 is missing"
    for number, version in enumerate(listed, 1):
        if version.number != number:
            yield f"version {number} is missing"
            return
        yield from _check_order(session, about, before, version)
        try:
            again = _replayed(session, about, before, version, find_policy)
        except (IndexError, TypeError):
            yield f"version {number} has seen a decision for an arm or a segment that is not there"
            return
        except BelatedError:
            raise
        except (ArithmeticError, ValueError):
            yield f"version {number} cannot be made again from the one before it"
            before = version
            continue
        learned = [(each.step, each.steps, each.counts, each.totals) for each in (again, version)]
        if learned[0] != learned[1]:
            yield f"version {number} does not follow from the outcomes that it had seen"
        if max(abs(a - b) for a, b in zip(again.probabilities, version.probabilities, strict=True)) > _TOLERANCE:
            yield f"version {number} does not have the probabilities that its policy gives"
        if any(p for k, p in enumerate(version.probabilities) if k % version.arms not in version.offered):
            yield f"version {number} chooses an arm that was not offered"
        if version.cause != "import" and not _sums_to_one(version):
            yield f"version {number} has probabilities that do not sum to 1"
        before = version


def _check_order(session: Session, about: Snapshot, before: Version | None, version: Version) -> Iterator[str]:
    """Check that versions, and the rows that they were made from, follow each other in time."""
    if version.watermark > session.watermark:
        yield f"version {version.number} has a watermark above everything that is stored"
    if before is None:
        return
    if version.made_at < before.made_at or version.watermark < before.watermark:
        yield f"version {version.number} is older than the one before it"
    latest = last_arrival(session, about.id, before.watermark, version.watermark)
    if version.cause == "tick" and latest >= version.made_at:
        yield f"version {version.number} is not later than the outcomes that it had seen"


def _sums_to_one(version: Version) -> bool:
    sums = [math.fsum(version.chances(segment)) for segment in range(max(len(version.steps), 1))]
    return all(abs(each - 1) <= tolerance(version.arms) for each in sums)


# ---------------------------------------------------------------- decisions and outcomes


def _check_decisions(session: Session, about: Snapshot, listed: list[Version]) -> tuple[int, list[str]]:
    """Draw every arm again; findings never contain units."""
    known = {version.number: version for version in listed}
    wrong: dict[str, int] = {}
    checked, last = 0, -1
    while True:
        rows = session.run(
            "select id, unit, arm, version, assigned_at, segment from decision where +experiment = ? and id > ? "
            "order by id limit ?", about.id, last, _BATCH,
        )  # fmt: skip
        if not rows:
            break
        for key, unit, arm, number, at, segment in rows:
            fault = _fault(about, known.get(number), key, unit, arm, at, segment)
            if fault is not None:
                wrong[fault] = wrong.get(fault, 0) + 1
        checked, last = checked + len(rows), rows[-1][0]
    return checked, [f"{count(n, 'decision')} {fault}" for fault, n in wrong.items()]


def _fault(
    about: Snapshot, version: Version | None, key: int, unit: str, arm: int, at: int, segment: int | None
) -> str | None:
    if version is None:
        return "of a version that is not there"
    if at < version.made_at:
        return "before the version that made it"
    if key < version.watermark:
        return "that the version which made it had already seen"
    if (segment is None) == bool(version.steps) or (segment is not None and not 0 <= segment < len(version.steps)):
        return "of a segment that its version does not have"
    chances = version.chances(segment)
    if not 0 <= arm < len(chances) or chances[arm] <= 0:
        return "for an arm of probability 0"
    if version.cause == "import" or is_tombstone(unit):
        return None
    drawn = choose(uniform(about.salt, unit), cumulative(chances))
    return None if drawn == arm else "that its unit and the salt do not give"


def _check_outcomes(session: Session, about: Snapshot) -> tuple[int, list[str]]:
    ((told,),) = session.run("select count(*) from outcome where experiment = ?", about.id)
    queries = {
        "without a decision": "select count(*) from outcome o left join decision d on d.id = o.decision "
        "where o.experiment = ? and d.id is null",
        "of another experiment's decision": "select count(*) from outcome o join decision d on d.id = o.decision "
        "where o.experiment = ? and d.experiment <> o.experiment",
        "before the decision": "select count(*) from outcome o join decision d on d.id = o.decision "
        "where o.experiment = ? and o.arrived_at < d.assigned_at",
        "that corrects nothing": "select count(*) from outcome o left join outcome b on b.decision = o.decision "
        "and b.key = o.key and b.revision = o.revision - 1 where o.experiment = ? and o.revision > 0 and b.id is null",
    }
    faults = {fault: session.run(query, about.id)[0][0] for fault, query in queries.items()}
    kind = about.setup.outcome
    odd = "or value not in (0, 1)" if kind.kind == "binary" else ""
    odd += "" if kind.is_events else " or key <> ''"
    for table, fault in (("outcome", "that its kind does not have"), ("parked", "parked that its kind does not have")):
        faults[fault] = session.run(
            f"select count(*) from {table} where experiment = ? and (value < ? or value > ? {odd})",  # noqa: S608
            about.id, kind.low, kind.high,
        )[0][0]  # fmt: skip
    return told, [f"{count(n, 'outcome')} {fault}" for fault, n in faults.items() if n]
