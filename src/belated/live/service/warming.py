"""Warming: small experiments are run and answered, so that everything is compiled before a request needs it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from belated.live.deciding import thompson_for
from belated.live.outcomes import Outcome, binary, events, real
from belated.live.storage import system_clock
from belated.live.store import Store, open_storage
from belated.simulation.description import policy_from

if TYPE_CHECKING:
    from belated.live.design import Setup

#: Units of a small experiment.
_UNITS = 200

#: The cases that this process has compiled: kind of outcome, measure of events, and whether units have segments.
_WARM: set[tuple[str, str | None, bool]] = set()


class _Clock:
    """A clock that moves only when it is told to, so that windows close at once."""

    def __init__(self) -> None:
        self.now = system_clock()

    def __call__(self) -> int:
        return self.now


def warm(setups: Iterable[Setup] | None = None) -> None:
    """Compile what asks, ticks and answers need, once in a process.

    Parameters
    ----------
    setups : iterable of Setup, optional
        Of the experiments that a store has: events and segments have kernels of their own, which are compiled only if
        an experiment has them. By default, everything is compiled.
    """
    from belated.base.errors import without_warnings
    from belated.kernels.jit import compile_kernels

    compile_kernels()  # without it, kernels of small experiments would be interpreted
    if setups is None:
        wanted = [(outcome, segmented) for outcome in (binary(), real(), events("1h")) for segmented in (False, True)]
    else:
        wanted = [(binary(), False), (real(), False), *((each.outcome, each.segmented) for each in setups)]
    kinds = {(outcome.kind, outcome.measure, segmented): (outcome, segmented) for outcome, segmented in wanted}
    new = [kinds[kind] for kind in kinds.keys() - _WARM]
    if not new:
        return
    clock = _Clock()
    with (
        tempfile.TemporaryDirectory(prefix="belated-") as folder,
        without_warnings(),
        Store(open_storage(str(Path(folder, "warm.belated")), clock), ticking=False) as store,
    ):
        store.storage.relax()
        for number, (outcome, segmented) in enumerate(new):
            _run(store, f"experiment {number}", outcome, clock, segmented=segmented)
    _WARM.update(kinds)


def _run(store: Store, name: str, outcome: Outcome, clock: _Clock, *, segmented: bool) -> None:
    """Run a small experiment; of events, half of the windows close, and half stay open."""
    segments = ["x", "y"] if segmented else None
    exp = store.create(
        name, arms=["A", "B"], policy=policy_from({"name": thompson_for(outcome)}), outcome=outcome,
        segments=segments, baseline="A", author="warm",
    ).start(author="warm")  # fmt: skip
    for half in range(2):
        units = [f"{half} {number}" for number in range(_UNITS // 2)]
        exp.ask_many(units, None if segments is None else [segments[i // 2 % 2] for i in range(len(units))])
        clock.now += outcome.length // 4 + 1
        low, high = (outcome.low, outcome.high) if outcome.kind == "bounded" else (0.0, 1.0)
        told = ((unit, high if number % 3 else low) for number, unit in enumerate(units))
        exp.tell_many((unit, value) for unit, value in told if value or not outcome.is_events)
        clock.now += (1 - half) * outcome.length + 1
        exp.tick()
    answer = exp.answer()
    answer.to_dict()
    _ = answer.best, answer.diagnosis
