"""Verifying: every decision is drawn again, every version made again, every rule of the log checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from belated.base.errors import PolicyError
from belated.base.tables import Column, Table
from belated.base.text import count
from belated.live.deciding import decide
from belated.live.design import Snapshot, snapshot, versions
from belated.live.draws import choose, cumulative, uniform
from belated.live.erasing import is_tombstone
from belated.live.errors import LiveError, legible
from belated.live.learning import known_at, learn, nothing
from belated.live.records import Version
from belated.live.storage import Session
from belated.live.ticking import FindPolicy, remaining, with_knowledge

#: How far a probability may be from its replay: other machines and versions round differently.
_CLOSE = 1e-9

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

    def _title(self) -> str:
        checked = f"{count(self.decisions, 'decision')}, {count(self.outcomes, 'outcome')} and "
        checked += count(self.versions, "version")
        return f"{checked} checked: {'clean' if self.clean else count(len(self.findings), 'finding')}"

    def _columns(self) -> list[Column]:
        return [] if self.clean else [Column("finding", list(self.findings), "sentence")]


def verify(session: Session, find_policy: FindPolicy) -> Verification:
    """Check every experiment of a store."""
    findings: list[str] = []
    decisions = outcomes = made = 0
    for (name,) in session.run("select name from experiment order by id"):
        try:
            with legible("a row"):
                about = snapshot(session, name)
                listed = versions(session, about.id)
                found = [*_check_audit(session, about), *_check_versions(session, about, listed, find_policy)]
                decided, wrong = _check_decisions(session, about, listed)
                told, odd = _check_outcomes(session, about)
        except LiveError as error:
            findings.append(f"{name!r}: {error}")
            continue
        findings += [f"{name!r}: {each}" for each in (*found, *wrong, *odd)]
        decisions, outcomes, made = decisions + decided, outcomes + told, made + len(listed)
    return Verification(tuple(findings), decisions, outcomes, made)


# ---------------------------------------------------------------- the audit


def _check_audit(session: Session, about: Snapshot) -> Iterator[str]:
    """Compare arms, segments and policies with those that the list of changes names."""
    noted: dict[str, list[object]] = {"arms": [], "segments": [], "policies": []}
    with legible("the list of changes"):
        rows = session.run("select what, detail from change where experiment = ? order by id", about.id)
        for what, text in rows:
            detail = json.loads(text)
            if what == "create":
                noted["arms"] += detail["arms"]
                noted["segments"] += detail.get("segments", [])
            if what in ("create", "set policy"):
                noted["policies"].append(detail["policy"])
            if what in ("add arm", "add segment"):
                kind = what.removeprefix("add ")
                noted[f"{kind}s"].append(detail[kind])
    if not noted["policies"]:  # not created here
        return
    kept: dict[str, list[object]] = {}
    for kind, column, table in (
        ("arms", "label", "arm"),
        ("segments", "label", "segment"),
        ("policies", "policy", "rule"),
    ):
        rows = session.run(f"select {column} from {table} where experiment = ? order by number", about.id)  # noqa: S608
        kept[kind] = [text for (text,) in rows]
    with legible("a policy"):
        kept["policies"] = [json.loads(str(text)) for text in kept["policies"]]
    for kind, values in kept.items():
        if noted[kind] != values:
            yield f"its {kind} are not those of the list of changes"


# ---------------------------------------------------------------- versions


def replay(session: Session, name: str, find_policy: FindPolicy) -> list[Version]:
    """Make every version of an experiment again, from the rows that each had seen."""
    about = snapshot(session, name)
    made: list[Version] = []
    for version in versions(session, about.id):
        made.append(_again(session, about, made[-1] if made else None, version, find_policy))
    return made


def _again(
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
    for number, version in enumerate(listed, 1):
        if version.number != number:
            yield f"version {number} is missing"
            return
        if before is not None and (version.made_at < before.made_at or version.watermark < before.watermark):
            yield f"version {number} is older than the one before it"
        try:
            again = _again(session, about, before, version, find_policy)
        except (IndexError, TypeError):
            yield f"version {number} has seen a decision for an arm or a segment that is not there"
            return
        learned = [(each.step, each.steps, each.counts, each.totals) for each in (again, version)]
        if learned[0] != learned[1]:
            yield f"version {number} does not follow from the outcomes that it had seen"
        if max(abs(a - b) for a, b in zip(again.probabilities, version.probabilities, strict=True)) > _CLOSE:
            yield f"version {number} does not have the probabilities that its policy gives"
        if any(p for k, p in enumerate(version.probabilities) if k % version.arms not in version.offered):
            yield f"version {number} chooses an arm that was not offered"
        before = version


# ---------------------------------------------------------------- decisions and outcomes


def _check_decisions(session: Session, about: Snapshot, listed: list[Version]) -> tuple[int, list[str]]:
    """Draw every arm again; units are never part of what is found."""
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
        for _, unit, arm, number, at, segment in rows:
            fault = _fault(about, known.get(number), unit, arm, at, segment)
            if fault is not None:
                wrong[fault] = wrong.get(fault, 0) + 1
        checked, last = checked + len(rows), rows[-1][0]
    return checked, [f"{count(n, 'decision')} {fault}" for fault, n in wrong.items()]


def _fault(about: Snapshot, version: Version | None, unit: str, arm: int, at: int, segment: int | None) -> str | None:
    if version is None:
        return "of a version that is not there"
    if at < version.made_at:
        return "before the version that made it"
    if (segment is None) == bool(version.steps) or (segment is not None and segment >= len(version.steps)):
        return "of a segment that its version does not have"
    chances = version.chances(segment)
    if arm >= len(chances) or chances[arm] <= 0:
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
        "before the decision": "select count(*) from outcome o join decision d on d.id = o.decision "
        "where o.experiment = ? and o.arrived_at < d.assigned_at",
        "that corrects nothing": "select count(*) from outcome o left join outcome b on b.decision = o.decision "
        "and b.key = o.key and b.revision = o.revision - 1 where o.experiment = ? and o.revision > 0 and b.id is null",
    }
    found = {fault: session.run(query, about.id)[0][0] for fault, query in queries.items()}
    return told, [f"{count(n, 'outcome')} {fault}" for fault, n in found.items() if n]
