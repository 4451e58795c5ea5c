"""Run experiments, so that their logs are right: decide, remember, learn as outcomes arrive, answer at any moment."""

from belated.live.answers import Counts, LiveAnswer, SegmentAnswer
from belated.live.errors import (
    AccessError,
    ClosedError,
    ContradictionError,
    CrossedError,
    LiveError,
    NotRunningError,
    OverloadedError,
    SchemaError,
    StorageError,
    UnknownExperimentError,
)
from belated.live.experiment import Experiment
from belated.live.interface import LiveExperiment, LiveStore
from belated.live.keeping import migrate, restore
from belated.live.opening import open  # noqa: A004
from belated.live.outcomes import Outcome, binary, bounded, events, real
from belated.live.records import Change, Decision, Tell, Told, Version
from belated.live.remote import RemoteExperiment, RemoteStore
from belated.live.status import Changes, Status
from belated.live.store import Experiments, Store
from belated.live.verifying import Verification
from belated.live.writer import Commit, Load

__all__ = [
    "AccessError",
    "Change",
    "Changes",
    "ClosedError",
    "Commit",
    "ContradictionError",
    "Counts",
    "CrossedError",
    "Decision",
    "Experiment",
    "Experiments",
    "LiveAnswer",
    "LiveError",
    "LiveExperiment",
    "LiveStore",
    "Load",
    "NotRunningError",
    "Outcome",
    "OverloadedError",
    "RemoteExperiment",
    "RemoteStore",
    "SchemaError",
    "SegmentAnswer",
    "Status",
    "StorageError",
    "Store",
    "Tell",
    "Told",
    "UnknownExperimentError",
    "Verification",
    "Version",
    "binary",
    "bounded",
    "events",
    "migrate",
    "open",
    "real",
    "restore",
]
