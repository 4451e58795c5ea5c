from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import belated as bl
from belated.live.importing import read_import

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
