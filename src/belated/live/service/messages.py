"""The types of requests and replies: requests are checked against them, and OpenAPI is made from them."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import msgspec

from belated.base.documents import JsonObject
from belated.live import outcomes
from belated.live.records import ArmState, ChangeKind, State, TellStatus
from belated.live.service.problems import ProblemDocument
from belated.live.tokens import Scope, TokenKind
from belated.sequences.design import KindOption
from belated.summaries.maturing import Measure

UnitName = str | int


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """A request: nothing but its own fields."""


class Ask(Request):
    """Whose arm is asked for."""

    unit: UnitName
    segment: str | None = None


class AskMany(Request):
    """Whose arms are asked for; segments are in the order of the units."""

    units: list[UnitName]
    segments: list[str] | None = None


class TellRequest(Request):
    """An outcome of a unit."""

    unit: UnitName
    value: float
    key: str = ""
    happened_at: dt.datetime | None = None
    correct: bool = False


class TellMany(Request):
    """Outcomes of units."""

    outcomes: list[TellRequest]


class OutcomeKind(Request):
    """A kind of outcome; low and high are for bounded outcomes, window and measure for events."""

    kind: outcomes.OutcomeName
    low: float | None = None
    high: float | None = None
    window: str | None = None
    measure: Measure = "indicator"


class Create(Request):
    """A new experiment; fields that are left out have the defaults of `Store.create`."""

    name: str
    arms: list[str]
    policy: JsonObject
    outcome: OutcomeKind
    segments: list[str] | None = None
    baseline: str | None = None
    planned_rows: int = 10_000
    level: float = 0.95
    kind: KindOption | None = None
    target: int | None = None
    every: int | None = None
    seconds: float = 2.0
    start: bool = False
    author: str | None = None
    reason: str = ""


class ChangeRequest(Request):
    """A change of an experiment, with `arm`, `segment`, `final` or `policy` if the change needs it."""

    what: Literal[
        "start", "stop", "close", "add_arm", "add_segment", "pause_arm", "resume_arm", "drop_arm", "set_policy"
    ]
    arm: str | None = None
    segment: str | None = None
    final: str | None = None
    policy: JsonObject | None = None
    author: str | None = None
    reason: str = ""


class Erase(Request):
    """The unit to erase."""

    unit: UnitName
    author: str | None = None
    reason: str = ""


class NewToken(Request):
    """A token to be made; `expires` is a duration such as 30d, or never."""

    label: str
    scopes: list[Scope]
    experiment: str | None = None
    expires: str | None = None


# ---------------------------------------------------------------- replies


class DecisionReply(msgspec.Struct):
    """The reply to an ask."""

    unit: str
    arm: str
    probabilities: dict[str, float]
    version: int
    assigned_at: dt.datetime | None
    repeated: bool
    logged: bool
    segment: str | None


class Stopped(ProblemDocument):
    """A new unit is refused: the experiment takes none. One that has stopped with a final arm names it, not logged."""

    unit: str | None = None
    arm: str | None = None
    probabilities: dict[str, float] | None = None
    version: int | None = None
    assigned_at: dt.datetime | None = None
    repeated: bool | None = None
    logged: bool | None = None
    segment: str | None = None


class OneDecision(msgspec.Struct):
    """The reply to one of several asks: a decision or, where the unit has none, a problem."""

    unit: str
    arm: str | None = None
    probabilities: dict[str, float] | None = None
    version: int | None = None
    assigned_at: dt.datetime | None = None
    repeated: bool | None = None
    logged: bool | None = None
    segment: str | None = None
    problem: ProblemDocument | None = None


class Decisions(msgspec.Struct):
    """The replies to several asks, in their order."""

    decisions: list[OneDecision]


class ToldReply(msgspec.Struct):
    """The acknowledgement of an outcome."""

    unit: str
    status: TellStatus
    why: str | None


class ToldMany(msgspec.Struct):
    """The acknowledgements of outcomes, in their order."""

    told: list[ToldReply]


class ArmProbability(msgspec.Struct):
    """An arm, and its probability now."""

    arm: str
    state: ArmState
    probability: float


class Segment(msgspec.Struct):
    """A segment: how many of its units the version knows, and the probability of every arm."""

    segment: str
    units: int
    probabilities: list[float]


class StatusReply(msgspec.Struct):
    """The state of an experiment, and the settings that were fixed when it was created."""

    name: str
    state: State
    version: int
    made_at: dt.datetime | None
    asked: int
    told: int
    parked: int
    problem: str | None
    arms: list[ArmProbability]
    segments: list[Segment]
    setup: JsonObject


class Listed(msgspec.Struct):
    """An experiment of the store; `asked` are the units that its last policy version knows."""

    name: str
    state: State
    arms: int
    asked: int


class Listing(msgspec.Struct):
    """The experiments of the store that the token may read."""

    experiments: list[Listed]


class AuditEntry(msgspec.Struct):
    """An entry of the audit; `detail` is JSON."""

    what: ChangeKind
    detail: str
    author: str
    reason: str
    made_at: dt.datetime


class ChangeList(msgspec.Struct):
    """The audit of an experiment."""

    changes: list[AuditEntry]


class VersionReply(msgspec.Struct):
    """A policy version; with segments, lists have the arms of the first segment, then those of the next."""

    number: int
    rule: int
    step: int
    watermark: int
    made_at: dt.datetime
    offered: list[int]
    probabilities: list[float]
    counts: list[float]
    totals: list[float]
    cause: str
    steps: list[int]


class Versions(msgspec.Struct):
    """Policy versions in their order; `more` says whether others follow."""

    versions: list[VersionReply]
    more: bool


class Tick(msgspec.Struct):
    """The current policy version; null before the start."""

    version: VersionReply | None


class Erased(msgspec.Struct):
    """Whether there was anything to forget."""

    erased: bool


class TokenDocument(msgspec.Struct):
    """A token's properties, without the token itself."""

    id: int
    kind: TokenKind
    label: str
    scopes: list[Scope]
    experiment: str | None
    author: str
    made_at: dt.datetime
    expires_at: dt.datetime | None
    ended_at: dt.datetime | None


class TokenList(msgspec.Struct):
    """The tokens of the store."""

    tokens: list[TokenDocument]


class MadeToken(msgspec.Struct):
    """A new token, which is shown once, and its properties."""

    token: str
    about: TokenDocument


class Health(msgspec.Struct):
    """That the service lives, or is ready."""

    status: Literal["ok"]


class Verified(msgspec.Struct):
    """The result of a check of the store."""

    clean: bool
    findings: list[str]
    decisions: int
    outcomes: int
    versions: int
