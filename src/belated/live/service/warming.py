"""Warming: a small experiment is run and answered, so that everything is compiled before a request needs it."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from belated.live.store import Store
from belated.live.store import open as open_store


@cache
def warm() -> None:
    """Compile what asks, ticks and answers need, once in a process."""
    from belated.base.errors import without_warnings
    from belated.live.outcomes import binary, real
    from belated.simulation.policies import thompson_beta, thompson_normal

    kinds = (("shares", thompson_beta(), binary()), ("numbers", thompson_normal(), real()))
    with tempfile.TemporaryDirectory(prefix="belated-") as folder, without_warnings(), _opened(folder) as store:
        store.storage.relax()
        for name, policy, outcome in kinds:
            exp = store.create(name, arms=["A", "B"], policy=policy, outcome=outcome, baseline="A", author="warm")
            exp.start(author="warm")
            units = [str(number) for number in range(200)]
            exp.ask_many(units)
            exp.tell_many((unit, float(number % 2)) for number, unit in enumerate(units))
            exp.tick()
            answer = exp.answer()
            answer.to_dict()
            _ = answer.best, answer.diagnosis


def _opened(folder: str) -> Store:
    return open_store(Path(folder, "warm.belated"), ticking=False)
