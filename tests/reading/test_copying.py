from __future__ import annotations

import pyarrow as pa
import pytest
from drawn import NAMES, Drawn, named, same
from engines import Engine

import belated as bl

pytestmark = pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning")


def test_a_log_says_whether_it_was_copied(postgres_engine: Engine) -> None:
    drawn = Drawn(NAMES[:3], rows=90)
    table = postgres_engine.table(drawn.table().set_column(0, "arm", pa.array([drawn.labels[k] for k in drawn.code])))
    by_copy = bl.read(table, propensity=named(drawn), copy_limit=90)
    by_engine = bl.read(table, propensity=named(drawn), copy_limit=89)
    for source in (by_copy, by_engine):
        assert source.engine == "postgres"
        same(source, drawn)
    assert dict(by_copy.how_read)["engine"] == "postgres, rows copied once, streamed through the compiled kernel"
    assert dict(by_engine.how_read)["engine"] == "postgres, sums computed by the engine"
    assert (
        "postgres computes the sums, because its rows are not copied: there are more than 89 rows (`copy_limit`)."
        in by_engine.notes
    )
    with pytest.raises(bl.OptionError, match="`copy_limit` is -1"):
        bl.read(table, copy_limit=-1)


def test_arms_that_come_late_bring_their_columns(postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which columns hold propensities is guessed from the first rows, and once more from all."""
    monkeypatch.setattr("belated.reading.inputs.FIRST_ROWS", 1)
    columns = {
        "arm": ["A", "B"], "outcome": [1.0, 0.0], "assigned_at": [1, 2],
        "p_A": [0.5, 0.5], "p_B": [0.5, 0.5], "w_A": [0.1, 0.1], "B": [9.0, 9.0],
    }  # fmt: skip
    source = bl.read(postgres_engine.table(columns))
    assert source.columns["propensity"] == ["p_A", "p_B"]


def test_columns_whose_names_differ_only_in_case_are_not_copied(postgres_engine: Engine) -> None:
    drawn = Drawn(("a", "A"))
    table = postgres_engine.table(drawn.table({"p0": "p_a", "p1": "p_A"}))
    source = bl.read(table)
    same(source, drawn)
    assert source.notes == (
        "postgres computes the sums, because its rows are not copied: columns 'p_a', 'p_A' differ only in case.",
    )
