"""`Setup`: the settings that are fixed when an experiment is created; `Snapshot`: its state at one moment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from belated.base.checks import Options, fraction, one_of, positive, whole
from belated.base.columns import Row
from belated.base.documents import JsonObject
from belated.base.errors import OptionError, argument
from belated.base.text import one_line
from belated.live.errors import ClosedError, DamagedError, NotRunningError, UnknownExperimentError, legible
from belated.live.outcomes import Outcome, outcome_from
from belated.live.records import ArmState, State, Version
from belated.live.schema import EXPERIMENT
from belated.live.storage import Session
from belated.summaries.segments import ALL, MISSING
from belated.summaries.segments import MOST as MOST_SEGMENTS

if TYPE_CHECKING:
    from belated.sequences.design import KindOption

#: The longest name of an experiment, an arm or a unit, and the largest number of arms; segments may be as many as
#: answers tell apart.
LONGEST, MOST_ARMS = 200, 1000
LONGEST_UNIT = 500

#: Whole numbers that are units are below it.
_LARGEST_UNIT = 10**100

#: How the names of erased units begin; no unit that is asked does.
TOMBSTONE = "\x7ferased "

#: Versions are made after this share of the planned rows: 0.2 % of them cost a fixed split's regret in a thousand.
_TICKS = 500


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The settings that are fixed when an experiment is created, so that no choice of the analysis depends on outcomes.

    Attributes
    ----------
    outcome : Outcome
    level : float
    kind : str
        The kind of the confidence sequence.
    target : int
        The number of assignments at which it is narrowest.
    baseline : str or None
    planned : int
        The number of rows that are planned; shares of the horizon, such as a burn-in, are of it.
    every : int
        Asks and outcomes after which a version is made.
    seconds : float
        The number of seconds after which a version is made if there is anything new.
    segmented : bool
        Whether units have segments.
    """

    outcome: Outcome
    level: float
    kind: KindOption
    target: int
    baseline: str | None
    planned: int
    every: int
    seconds: float
    segmented: bool = False

    def to_dict(self) -> JsonObject:
        """Return the setup as values that JSON has."""
        return {**vars(self), "outcome": self.outcome.to_dict()}

    @classmethod
    def from_dict(cls, table: JsonObject) -> Setup:
        """Return the setup of a table that `to_dict` made."""
        with legible("the setup of an experiment"):
            return cls(**{**table, "outcome": outcome_from(table["outcome"])})

    def to_json(self) -> str:
        """Return the setup as text, which storages hold."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Setup:
        """Return the setup of text that `to_json` made."""
        with legible("the setup of an experiment"):
            return cls.from_dict(json.loads(text))

    @property
    def sequence_options(self) -> Options:
        """The options with which `bl.sequence` makes the experiment's confidence sequence."""
        _, bounds = self.outcome.sequence
        options: Options = {"level": self.level, "target": self.target, "baseline": self.baseline}
        return {"kind": self.kind, **options, **({} if bounds is None else {"bounds": bounds})}

    def segment_options(self, segments: int) -> Options:
        """Return the options with which `bl.sequence` follows one of several segments: narrowest at its share."""
        kind = self.outcome.sequence[0] if self.kind == "auto" else self.kind
        return {**self.sequence_options, "kind": kind, "target": max(self.target // segments, 1)}


def plan_setup(  # noqa: PLR0913
    arms: Sequence[str],
    outcome: Outcome,
    *,
    baseline: str | None,
    planned_rows: int,
    level: float = 0.95,
    kind: KindOption | None = None,
    target: int | None = None,
    every: int | None = None,
    seconds: float = 2.0,
    segmented: bool = False,
) -> Setup:
    """Return the setup of the options of `Store.create`."""
    if not isinstance(outcome, Outcome):
        raise OptionError(f"{argument('outcome')} must be declared, such as bl.live.binary().")
    if baseline is not None and baseline not in arms:
        known = ", ".join(repr(one_line(arm)) for arm in arms)
        raise OptionError(f"{argument('baseline')} is {one_line(repr(baseline))}; it must be one of the arms {known}.")
    planned = whole("planned_rows", planned_rows, least=1)
    default_kind: KindOption = outcome.sequence[0]
    if segmented:  # over segments, 0/1 outcomes have their own kind while no small segments are merged
        default_kind = "auto" if default_kind == "beta_binomial" else "asymptotic"
    if kind is not None:  # others would need what is not declared, such as bounds
        kinds: tuple[KindOption, ...] = ("auto", "asymptotic", default_kind)
        chosen = one_of("kind", kind, tuple(dict.fromkeys(kinds)))
        default_kind = default_kind if segmented and chosen == "auto" else chosen
    return Setup(
        outcome=outcome,
        level=fraction("level", level),
        kind=default_kind,
        target=planned if target is None else whole("target", target, least=1),
        baseline=baseline,
        planned=planned,
        every=max(planned // _TICKS, 1) if every is None else whole("every", every, least=1),
        seconds=positive("seconds", seconds),
        segmented=segmented,
    )


def read_text(name: str, value: object, longest: int = LONGEST) -> str:
    """Return text that every storage can hold: of bounded length, without NUL and without half characters."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        what = f"has {len(value):,} characters" if isinstance(value, str) else f"is of type {type(value).__name__}"
        raise OptionError(f"{argument(name)} {what}; it must be text of 1 to {longest} characters.")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise OptionError(f"{argument(name)} has a character that is not text; leave it out.")
    return value


def read_unit(value: object) -> str:
    """Return a unit as text; a whole number is written out."""
    if type(value) is str and value.isascii() and value.isprintable() and 0 < len(value) <= LONGEST_UNIT:
        return value
    if isinstance(value, Integral) and not isinstance(value, bool) and abs(int(value)) < _LARGEST_UNIT:
        value = str(int(value))
    text = read_text("unit", value, LONGEST_UNIT)
    if text.startswith(TOMBSTONE):
        raise OptionError(f"{argument('unit')} begins as the names of erased units do; choose another name.")
    return text


def read_units(values: list[str]) -> list[str]:
    """Return units as `read_unit` does; those that are plain text, as most are, are checked together."""
    if set(map(type, values)) == {str} and all(values) and max(map(len, values)) <= LONGEST_UNIT:
        together = "".join(values)
        if together.isascii() and together.isprintable():
            return values
    return list(map(read_unit, values))


def read_names(option: str, names: Sequence[str], most: int) -> list[str]:
    """Return the names of arms or segments, which are different."""
    listed = [names] if isinstance(names, str) else names
    if isinstance(listed, bytes) or not isinstance(listed, Iterable):
        raise OptionError(f"{argument(option)} is of type {type(names).__name__}; it must be a list.")
    labels = [read_text(option, name) for name in listed]
    if len(set(labels)) != len(labels) or not 1 <= len(labels) <= most:
        raise OptionError(f"{argument(option)} must be 1 to {most} different names.")
    return labels


def read_segments(names: Sequence[str]) -> list[str]:
    """Return the names of segments, which are different, and not those that answers use themselves."""
    labels = read_names("segments", names, MOST_SEGMENTS)
    for label in {ALL, MISSING}.intersection(labels):
        raise OptionError(
            f"{argument('segments')} has {label!r}, a name that answers use themselves; choose another one."
        )
    return labels


@dataclass(frozen=True, slots=True)
class ArmRow:
    """An arm: its number, which is never used again, its label, and whether it may be chosen."""

    number: int
    label: str
    state: ArmState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An experiment as it is in a transaction: its state, arms, segments and current version."""

    id: int
    name: str
    state: State
    salt: bytes
    setup: Setup
    final: int | None
    problem: str | None
    waiting: bool  # whether outcomes are parked
    arms: tuple[ArmRow, ...]
    segments: tuple[str, ...]  # by number; empty if units have none
    version: Version | None

    def __repr__(self) -> str:
        return f"Snapshot({self.name!r}, {self.state})"  # never the salt

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all arms, by number."""
        return tuple(arm.label for arm in self.arms)

    @property
    def offered(self) -> tuple[int, ...]:
        """The numbers of the arms that may be chosen."""
        return tuple(arm.number for arm in self.arms if arm.state == "offered")

    def check_takes_calls(self) -> None:
        """Raise if the experiment takes neither units nor outcomes: it has not started, or it is closed."""
        if self.state == "draft":
            raise NotRunningError(f"{self.name!r} has not started; start it first.")
        if self.state == "closed":
            raise ClosedError(f"{self.name!r} is closed; it takes neither units nor outcomes.")

    def arm(self, label: str, option: str = "arm") -> ArmRow:
        """Return the arm of a label, which `option` gives."""
        for arm in self.arms:
            if arm.label == label:
                return arm
        known = ", ".join(repr(one_line(arm.label)) for arm in self.arms)
        raise OptionError(f"{argument(option)} is {one_line(repr(label))}; it must be one of {known}.")

    def probabilities(self, version: Version, segment: int | None = None) -> dict[str, float]:
        """Return the probability of every arm under a version, in a segment; arms that came later have 0."""
        chances = version.chances(segment)
        return dict(zip(self.labels, (*chances, *[0.0] * (len(self.arms) - len(chances))), strict=True))


#: Setups by their text, which never changes.
_SETUPS: dict[str, Setup] = {}

_VERSION = "number, rule, step, watermark, made_at, offered, probabilities, counts, totals, steps, cause"
_ONE_VERSION = f"select {_VERSION} from version where experiment = ? and number = ?"
_SOME_VERSIONS = f"select {_VERSION} from version where experiment = ? and number in (?*)"
_ALL_VERSIONS = f"select {_VERSION} from version where experiment = ? order by number"


def snapshot(session: Session, name: str) -> Snapshot:
    """Return an experiment by its name; raise if there is none."""
    row = session.experiments.get(name)
    rows = [row] if row else session.run(EXPERIMENT + " where e.name = ?", name)
    if not rows:
        known = [row[0] for row in session.run("select name from experiment order by id limit 20")]
        listed = f" It has {', '.join(repr(one_line(each)) for each in known)}." if known else " It has none yet."
        raise UnknownExperimentError(f"There is no experiment {one_line(repr(name))} in the store.{listed}")
    key, name, state, salt, about, final, problem, latest, waiting = rows[0]
    setup = _SETUPS.get(about)
    if setup is None:
        setup = _SETUPS[about] = Setup.from_json(about)
    arms, segments, version = _served(session, key, latest, state, segmented=setup.segmented)
    return Snapshot(
        id=key, name=name, state=state, salt=bytes(salt), setup=setup, final=final, problem=problem,
        waiting=bool(waiting), arms=arms, segments=segments, version=version,
    )  # fmt: skip


#: What an experiment serves from: its arms, its segments and its latest version.
Served = tuple[tuple[ArmRow, ...], tuple[str, ...], Version | None]


def _served(session: Session, key: int, latest: int | None, state: State, *, segmented: bool) -> Served:
    """Return the current state; arms and segments of a running experiment change only with a new version."""
    memory = session.known if state == "running" else None
    place = (key, latest or 0)
    if memory is not None and place in memory:
        known: Served = memory[place]
        return known
    rows = session.run("select number, label, state from arm where experiment = ? order by number", key)
    if not rows:
        raise DamagedError("The store is damaged: an experiment has no arms; restore a backup.")
    segments: list[Row] = []
    if segmented:
        segments = session.run("select label from segment where experiment = ? order by number", key)
    versions = [] if latest is None else session.run(_ONE_VERSION, key, latest)
    version = _version(versions[0]) if versions else None
    served = tuple(ArmRow(*row) for row in rows), tuple(row[0] for row in segments), version
    if memory is not None:
        if len(memory) > 1000:
            memory.clear()
        memory[place] = served
    return served


def versions(session: Session, experiment: int, numbers: list[int] | None = None) -> list[Version]:
    """Return versions of an experiment: all, in order, or some."""
    if numbers is None:
        rows = session.run(_ALL_VERSIONS, experiment)
    else:
        rows = session.run(_SOME_VERSIONS, experiment, numbers)
    return [_version(row) for row in rows]


def add_version(session: Session, experiment: int, version: Version) -> bool:
    """Insert a version; return whether it was inserted: False if another version took its number."""
    session.known = None  # until it is committed, nobody may rely on it
    lists = (version.offered, version.probabilities, version.counts, version.totals, version.steps)
    rows = session.run(
        "insert into version (experiment, number, rule, step, watermark, made_at, offered, probabilities, counts, "
        "totals, steps, cause) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing returning number",
        experiment, version.number, version.rule, version.step, version.watermark, version.made_at,
        *(json.dumps(list(values)) for values in lists), version.cause,
    )  # fmt: skip
    return bool(rows)


#: The kinds of values of a version: numbers, then lists of them, as `_VERSION` names them.
_NUMBERS, _LISTS = 5, (int, float, float, float, int)


def _version(row: Row) -> Version:
    with legible("a version of the policy"):
        number, rule, step, watermark, made_at = map(int, row[:_NUMBERS])
        offered, probabilities, counts, totals, steps = (
            tuple(map(kind, json.loads(text))) for kind, text in zip(_LISTS, row[_NUMBERS:-1], strict=True)
        )
    return Version(
        number=number, rule=rule, step=step, watermark=watermark, made_at=made_at, offered=offered,
        probabilities=probabilities, counts=counts, totals=totals, cause=row[-1], steps=steps,
    )  # fmt: skip
