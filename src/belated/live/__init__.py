"""Run experiments, so that their logs are right: decide, remember, learn as outcomes arrive, answer at any moment."""

from belated.live.answers import Counts, LiveAnswer
from belated.live.errors import (
    ClosedError,
    ContradictionError,
    CrossedError,
    LiveError,
    NotRunningError,
    SchemaError,
    StorageError,
    UnknownExperimentError,
)
from belated.live.experiment import Changes, Experiment, Status
from belated.live.keeping import migrate, restore
from belated.live.outcomes import Outcome, binary, bounded, events, real
from belated.live.records import Change, Decision, Tell, Told, Version
from belated.live.store import Experiments, Store, open  # noqa: A004
from belated.live.verifying import Verification

__all__ = [
    "Change",
    "Changes",
    "ClosedError",
    "ContradictionError",
    "Counts",
    "CrossedError",
    "Decision",
    "Experiment",
    "Experiments",
    "LiveAnswer",
    "LiveError",
    "NotRunningError",
    "Outcome",
    "SchemaError",
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
