from __future__ import annotations

from belated.live.dashboard.machine import read_machine
from tests.live.conftest import of_storages

pytestmark = of_storages("pages look into the storage of their own process")


def test_a_machine_says_how_far_policies_are_behind(place):
    exp = place.create()
    place.create("draft", start=False)
    exp.ask_many(["a", "b"])
    place.clock.forward(7)
    exp.tell("a", 1)
    machine = read_machine(exp._store, ["button", "draft"])
    (lag,) = machine.lags
    assert (lag.name, lag.rows, lag.seconds) == ("button", 3, 7)
    assert machine.load.commits == 2
    assert machine.median is not None
    assert machine.slowest >= machine.median
    assert machine.size > 10_000
    assert machine.size_text.endswith("kB") or machine.size_text.endswith("MB")
    exp.tick()
    assert read_machine(exp._store, ["button"]).lags[0].rows == 0
