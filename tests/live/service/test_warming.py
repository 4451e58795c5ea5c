from __future__ import annotations

import subprocess
import sys

import pytest

from belated.live.service import warming

#: Warms for an experiment with events in segments, and prints the kernels that its answers still had to compile.
SCRIPT = """
import sys
import belated as bl
from belated.kernels import arrivals, records, rows, sequence_blocks, sequence_bounds
from belated.live.service.warming import warm

def compiled():
    modules = (rows, arrivals, records, sequence_bounds, sequence_blocks)
    kernels = {name: getattr(module, name) for module in modules for name in module.KERNELS}
    return {(name, str(kind)) for name, kernel in kernels.items() for kind in getattr(kernel, "signatures", ())}

store = bl.live.open(sys.argv[1], ticking=False)
kinds = {
    "events": (bl.live.events("7d"), None),
    "mail": (bl.live.binary(), ["DE", "FR"]),
    "price": (bl.live.real(), None),
}
made = [
    store.create(
        name, arms=["A", "B", "C"], policy=bl.policies.uniform(), outcome=outcome, segments=segments, baseline="A"
    ).start()
    for name, (outcome, segments) in kinds.items()
]
warm(exp.setup for exp in made)
before = compiled()
for exp in made:
    units = [f"unit {i}" for i in range(90)]
    exp.ask_many(units, ["DE", "FR"] * 45 if exp.setup.segmented else None)
    exp.tell_many((unit, i % 2) for i, unit in enumerate(units[:60]) if i % 2 or not exp.setup.outcome.is_events)
    exp.tick()
    answer = exp.answer()
    answer.to_json(), answer.best, answer.diagnosis
print(len(before), sorted(compiled() - before))
"""


def test_what_experiments_need_is_compiled_before_a_request_needs_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "shop.belated")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    number, _, late = done.stdout.strip().partition(" ")
    assert int(number) > 10
    assert late == "[]"


def test_a_process_is_warmed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    warming.warm([])
    monkeypatch.setattr(warming, "_run", lambda *_, **__: pytest.fail("warmed again"))
    warming.warm([])
