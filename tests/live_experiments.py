"""Live experiments of the tests of every storage: units and segments, what is asked and told, and what is stored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import belated as bl
from belated.live.design import versions
from belated.live.records import Version

UNITS = [f"unit-{i:02}" for i in range(40)]

SEGMENTS = ["FR", "DE", "ES"]  # not in alphabetical order, as logs have them
CHANCES = {
    "FR": {"A": 0.6, "B": 0.2, "C": 0.3},
    "DE": {"A": 0.2, "B": 0.6, "C": 0.3},
    "ES": {"A": 0.4, "B": 0.4, "C": 0.5},
}


def start_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run Python in another process."""
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)


def stored(exp: Any) -> list[Version]:
    """Return the versions of an experiment."""
    with exp._store.storage.reading() as session:
        return versions(session, exp._id)


def rows(exp: Any, table: str = "decision") -> list[tuple[Any, ...]]:
    """Return the rows of an experiment in a table, in their order; of decisions, all columns but the segment."""
    columns = "id, experiment, unit, arm, version, assigned_at" if table == "decision" else "*"
    with exp._store.storage.reading() as session:
        return session.run(f"select {columns} from {table} where experiment = ? order by 1, 2, 3", exp._id)  # noqa: S608


def learn(exp: Any, units: Sequence[str] = UNITS) -> None:
    """Ask units, tell their outcomes, and tick."""
    exp.ask_many(units)
    exp.tell_many((unit, i % 3 == 0) for i, unit in enumerate(units))
    exp.tick()


def create_by_segment(place: Any, name: str = "button", **options: Any) -> Any:
    """Create and start an experiment of three arms in three segments."""
    given = {"arms": ["A", "B", "C"], "policy": bl.policies.thompson_beta(), "segments": SEGMENTS}
    return place.create(name, **given | options)


def draw_binary(chance: float, rng: np.random.Generator) -> float:
    return float(rng.random() < chance)


def learn_by_segment(
    exp: Any,
    batches: int = 8,
    size: int = 30,
    seed: int = 1,
    clock: Any = None,
    values: Callable[[float, np.random.Generator], float] = draw_binary,
) -> None:
    """Ask units of every segment, tell most outcomes, and tick."""
    rng = np.random.default_rng(seed)
    for batch in range(batches):
        segments = [SEGMENTS[k] for k in rng.choice(3, size, p=[0.5, 0.3, 0.2])]
        replies = exp.ask_many([f"{seed}-{batch}-{i}" for i in range(size)], segments)
        if clock is not None:
            clock.forward(60)
        exp.tell_many(
            (each.unit, values(CHANCES[each.segment].get(each.arm, 0.1), rng)) for each in replies if rng.random() < 0.8
        )
        exp.tick()


def agree(place: Any, exp: Any, **options: Any) -> Any:
    """Check that answers from memory are those from the storage, to the last digit; return the answer."""
    answer, read = exp.answer(), bl.read(place.home, table=exp.name, **options)
    assert bl.estimate(read).to_json() == answer.estimate.to_json() == bl.estimate(exp.log()).to_json()
    assert bl.sequence(read, **exp.setup.sequence_options).to_json() == answer.sequence.to_json()
    assert bl.diagnose(read).to_json() == answer.diagnosis.to_json()
    for label, own in answer.segments.items():
        assert own.estimate.to_json() == bl.estimate(read).segment(label).to_json()
        several = len(answer.estimate.segments)
        followed = bl.sequence(read, segment=label, **exp.setup.segment_options(several))
        assert followed.to_json() == own.sequence.to_json()
    return answer
