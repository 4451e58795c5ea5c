from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from live_experiments import CHANCES, agree, stored

import belated as bl
from belated.live.importing import read_import
from tests.live.conftest import of_storages

GIVEN = {"policy": bl.policies.uniform(), "outcome": bl.live.binary()}
ROWS = {"arm": ["A", "B", "A"], "outcome": [1.0, 0.0, None], "p_A": [0.5] * 3, "p_B": [0.5] * 3}


def test_units_may_be_as_many_as_there_are_people(tmp_path):
    n = 10_500
    table = pa.table({
        "who": [f"{i:07}" for i in range(n)], "arm": ["A", "B"] * (n // 2), "p_A": [0.5] * n, "p_B": [0.5] * n,
        "outcome": [1.0, 0.0] * (n // 2),
    })  # fmt: skip
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        exp = store.import_table("mail", table, unit="who", kind="asymptotic", target=n, **GIVEN)
        assert exp.ask("0000017").repeated
        assert (exp.status().asked, exp.setup.kind, exp.setup.target) == (n, "asymptotic", n)
        assert store.verify().clean


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"who": ["x", None, "y"]}, {"unit": "who"}, "Column 'who' is empty in row 1; every row must have its unit"),
        ({"who": ["x", "y" * 501, "z"]}, {"unit": "who"}, "Row 1 of column 'who' is no unit: `unit` has 501"),
        ({}, {"unit": "who"}, "There is no column 'who' for `unit`; the columns are"),
        ({"outcome": [1.0, 7.0, None]}, {}, "The outcome of row 1 cannot be: `value` is 7; a binary outcome must be"),
        ({}, {"planned_rows": 0}, "`planned_rows` is 0"),
        ({}, {"kind": "bernstein"}, "`kind` is 'bernstein'; it must be one of 'auto'"),
        ({}, {"outcome": "binary"}, "`outcome` must be declared"),
    ],
)
def test_what_cannot_be_imported_is_said_in_a_sentence(columns, options, words):
    with pytest.raises((bl.LogError, bl.OptionError), match=words):
        read_import("mail", pa.table(ROWS | columns), **GIVEN | options)


@pytest.mark.parametrize(
    ("hours", "words"),
    [((0, 2, 0, 1), "Row 1 was assigned later than now"), ((0, 0, 0, 2), "Row 2 has its outcome later than now")],
)
def test_times_that_are_still_to_come_are_refused(tmp_path, hours, words):
    """Local times that are taken for UTC: everything that is stored later would have to wait for them."""
    now = dt.datetime(2026, 3, 1, 12)
    *assigned, told = [now + dt.timedelta(hours=each - 1) for each in hours]
    table = pa.table(ROWS | {"outcome": [None, None, 1.0], "assigned_at": assigned, "arrived_at": [None, None, told]})
    clock = int(now.replace(tzinfo=dt.UTC).timestamp() * 1e6)
    with bl.live.open(tmp_path / "shop.belated", ticking=False, clock=lambda: clock) as store:
        with pytest.raises(bl.LogError, match=f"{words}, 2026-03-01 12:00 UTC; the times of an import must be past"):
            store.import_table("mail", table, **GIVEN)
        assert not list(store.experiments())


def test_whole_numbers_are_units(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        for name, units in {"whole": [1, 2, 3], "float": [1.0, 2.0, 3.0]}.items():
            exp = store.import_table(name, pa.table(ROWS | {"who": units}), unit="who", **GIVEN)
            assert exp.ask(2).repeated


def test_an_arm_that_was_never_drawn_may_be_in_one_column_of_probabilities(tmp_path):
    chances = pa.table({"arm": ["A"] * 3, "outcome": [1.0, 0, None], "propensity": [{"A": 0.4, "B": 0.6}] * 3})
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        exp = store.import_table("mail", chances, **GIVEN)
        assert exp.log().propensity.tolist() == [[0.4, 0.6]] * 3
        assert exp.ask("new").probabilities == {"A": 0.5, "B": 0.5}


@of_storages("a table is not imported over HTTP")
def test_a_running_experiment_is_imported_with_its_segments(place):
    bandit = bl.ContextualBandit(
        {
            segment: bl.Bandit({arm: bl.arms.bernoulli(p) for arm, p in rates.items()}, bl.delays.geometric(20))
            for segment, rates in CHANCES.items()
        }
    )
    log = bl.simulate(bandit, bl.policies.thompson_beta(burn_in=60).batched(20), 300, seed=1)
    labels, code = log.segment_column
    countries = [labels[s] for s in code]
    frame = pa.table(
        {"who": [f"c{i}" for i in range(300)], "country": countries, "arm": [log.arms[k] for k in log.code]}
        | {f"p_{arm}": log.propensity_matrix[:, k] for k, arm in enumerate(log.arms)}
        | {"outcome": [y if there else None for y, there in zip(log.outcome, log.arrived, strict=True)]}
    )
    given = {"policy": bl.policies.thompson_beta(), "outcome": bl.live.binary(), "unit": "who", "baseline": "A"}
    store = place.open()
    exp = store.import_table("mail", frame, segment="country", **given)
    assert exp.status().segments[0][0] == "DE"
    answer = agree(place, exp)
    reference = bl.estimate(bl.read(frame, segment="country"))
    assert answer.estimate.values == pytest.approx(reference.values, rel=1e-12)
    made = stored(exp)
    assert sum(version.cause == "import" for version in made) < 30  # a version holds a batch of every segment
    assert made[-1].steps == tuple(1 + countries.count(segment) for segment in sorted(CHANCES))
    assert sum(made[-1].counts) == log.arrived.sum()
    again = exp.ask("c17", "DE")
    assert (again.repeated, again.segment) == (True, countries[17])
    assert place.again("mail").replay() == made
    assert store.verify().clean
    holed = frame.set_column(1, "country", pa.array([None, *countries[1:]]))
    with pytest.raises(bl.LogError, match="The segment of row 0 is missing"):
        store.import_table("other", holed, segment="country", **given)
