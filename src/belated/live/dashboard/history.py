"""`ExperimentHistory`: the policy versions of an experiment, few enough to draw, and the changes that mark them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from belated.base.columns import Array
from belated.base.text import one_line
from belated.live.design import snapshot, versions
from belated.live.experiment import Experiment
from belated.live.records import Change, Version
from belated.reports.charts import Mark

#: Versions that are drawn; changes that mark a chart.
_MOST_VERSIONS, _MOST_MARKS = 60, 30

#: Changes that are no marks: charts begin with them, or they change nothing that is drawn.
_UNMARKED = ("create", "start", "erase")


@dataclass(frozen=True, eq=False)
class ExperimentHistory:
    """Versions and changes.

    Attributes
    ----------
    labels : tuple of str
        The arms.
    moments : array of datetime64
        When each version was made.
    probabilities : dict of array (versions, arms)
        By segment; without segments, that of "".
    latest : int
        The number of the last version.
    changes : list of (label, Change)
        The changes that charts mark, with the number that they are marked by.
    """

    labels: tuple[str, ...]
    moments: Array
    probabilities: dict[str, Array]
    latest: int
    changes: list[tuple[str, Change]]

    @property
    def marks(self) -> list[Mark]:
        """The changes as marks of charts."""
        return [Mark(np.datetime64(change.made_at.replace(tzinfo=None), "us"), label) for label, change in self.changes]


def read_history(exp: Experiment) -> ExperimentHistory:
    """Read the versions of an experiment, evenly spaced if there are many, and its changes."""
    changes = [each for each in exp.changes() if each.what not in _UNMARKED][-_MOST_MARKS:]
    with exp._store.storage.reading() as session:
        about = snapshot(session, exp.name)
        latest = 0 if about.version is None else about.version.number
        wanted = np.unique(np.linspace(1, latest, min(latest, _MOST_VERSIONS)).round().astype(int)).tolist()
        listed = sorted(versions(session, about.id, wanted), key=lambda version: version.number) if wanted else []
        now = session.now
    moments = np.array([version.made_at for version in listed], np.int64)
    tables = {label: _table(listed, k, len(about.arms)) for k, label in enumerate(about.segments or ("",))}
    if about.state == "running" and len(listed):  # the last version still decides
        moments = np.append(moments, max(now, moments[-1]))
        tables = {label: np.vstack([table, table[-1:]]) for label, table in tables.items()}
    marked = [(str(number), change) for number, change in enumerate(changes, 1)]
    return ExperimentHistory(about.labels, moments.view("datetime64[us]"), tables, latest, marked)


def _table(listed: Sequence[Version], segment: int, arms: int) -> Array:
    """Return the probabilities of versions in a segment; 0 of arms and segments that came later."""
    table = np.zeros((len(listed), arms))
    for row, version in zip(table, listed, strict=True):
        p = version.chances(segment)
        row[: len(p)] = p
    return table


def change_words(change: Change) -> str:
    """Say what a change was, without its reason."""
    detail = json.loads(change.detail) if change.detail else {}
    if change.what == "create":
        return f"Created with {len(detail.get('arms', []))} arms, {policy_words(detail.get('policy', {}))}"
    if change.what == "set policy":
        return f"Policy set: {policy_words(detail.get('policy', {}))}"
    if change.what == "stop":
        final = detail.get("final")
        return "Stopped" if final is None else f"Stopped; later units get {one_line(final, 200)}"
    words = {
        "start": "Started", "close": "Closed", "erase": "A unit was erased", "add arm": "Arm added",
        "pause arm": "Arm paused", "resume arm": "Arm resumed", "drop arm": "Arm dropped",
        "add segment": "Segment added",
    }.get(change.what, change.what)  # fmt: skip
    about = detail.get("arm", detail.get("segment"))
    return words if about is None else f"{words}: {one_line(about, 200)}"


def policy_words(table: dict[str, object]) -> str:
    """Return a policy as its name and options."""
    given = {key: value for key, value in table.items() if key != "name"}
    options = ", ".join(f"{key.replace('_', ' ')} {_written(value)}" for key, value in given.items())
    name = str(table.get("name", "unknown")).replace("_", " ")
    return one_line(f"{name} ({options})" if options else name, 300)


def _written(value: object) -> str:
    if isinstance(value, (int, float)):
        return f"{value:g}"
    if isinstance(value, list) and all(isinstance(each, dict) and len(each) == 2 for each in value):
        return ", ".join(f"{each.get('label')} {each.get('share')}" for each in value)  # shares of arms
    return json.dumps(value, ensure_ascii=False)
