from __future__ import annotations

import time

import belated as bl
from belated.live.dashboard import shelf as shelves


def lights(site, **options):
    """Return the rows of the list of experiments, once all that were asked for have a light."""
    end = time.monotonic() + 600
    while b"not looked at yet" in (html := site.get("/", **options)).body:
        assert time.monotonic() < end
        time.sleep(0.05)
    return html.body.decode()


def is_red(site, name):
    """Whether the light of an experiment is red in the list; that of others depends on how their units were drawn."""
    (row,) = (row for row in lights(site).split("<tr") if name in row)
    return "red" in row


def test_lights_of_the_list_are_made_again_while_somebody_looks(own_site, monkeypatch):
    monkeypatch.setattr(shelves, "_LEAST_PAUSE", 0.0)
    exp = own_site.store.create(
        "wrong", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary(), baseline="A"
    ).start()
    exp.ask_many([f"unit {i}" for i in range(40)])
    assert is_red(own_site, "wrong")  # no outcome of any arm
    exp.tell_many([(f"unit {i}", i % 2) for i in range(40)])
    end = time.monotonic() + 600
    while is_red(own_site, "wrong"):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_whoever_looks_at_one_experiment_does_not_wait_for_all(own_site, monkeypatch):
    """Answers for the list are made one at a time."""
    names = [f"experiment {i}" for i in range(6)]
    for name in names:
        exp = own_site.store.create(name, arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary())
        exp.start().ask("ada")
    at_once, most = set(), []
    refresh = shelves.Shelf._refresh

    async def counted(self, exp):
        at_once.add(exp.name)
        most.append(len(at_once))
        await refresh(self, exp)
        at_once.discard(exp.name)

    monkeypatch.setattr(shelves.Shelf, "_refresh", counted)
    lights(own_site)
    assert len(most) >= 7
    assert max(most) == 1
