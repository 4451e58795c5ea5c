from __future__ import annotations

from belated.live.dashboard.overview import read_overview
from tests.live.conftest import of_storages

pytestmark = of_storages("pages look into the storage of their own process")


def test_a_draft_has_neither_a_rate_nor_a_policy(place):
    overview = read_overview(place.create(start=False))
    assert (overview.per_minute, overview.out, overview.age) == (None, 0, None)


def test_units_of_the_last_minute_are_counted(place):
    exp, clock = place.create(), place.clock
    exp.ask_many([f"early {i}" for i in range(50)])
    exp.tick()
    clock.forward(600)
    assert read_overview(exp).per_minute == 0
    for second in range(12):
        exp.ask_many([f"late {second} {i}" for i in range(5)])
        clock.forward(2)
        exp.tick()
    exp.tell("late 0 0", 1)
    overview = read_overview(exp)
    assert overview.per_minute == 60
    assert overview.out == 109
    assert overview.age == 0
    clock.forward(90)
    assert read_overview(exp).age == 90
    assert read_overview(exp).per_minute == 0


def test_a_young_experiment_has_the_rate_of_its_life(place):
    exp = place.create()
    place.clock.forward(30)
    exp.ask_many([f"{i}" for i in range(20)])
    assert read_overview(exp).per_minute == 40
    exp.stop()
    assert read_overview(exp).per_minute is None


def test_what_later_units_get_is_known_once_it_has_stopped(place):
    exp, plain = place.create(), place.create("plain")
    assert read_overview(exp).final is None
    exp.stop("B")
    plain.stop()
    assert (read_overview(exp).final, read_overview(plain).final) == ("B", None)
    exp.close()
    assert read_overview(exp).final is None
