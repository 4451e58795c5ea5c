from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from drawn import DRAWN, ROWS, refused, same

import belated as bl
from belated.log.clock import NEVER
from belated.reading.batches import Batch, row_name

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def test_faults_of_joined_tables_name_the_key():
    table = DRAWN.wide()
    keys = pa.array([f"k'{i}\n" for i in range(ROWS)])
    made = table.drop(["outcome", "arrived_at"]).append_column("id", keys)
    came = table.select(["outcome", "arrived_at"]).append_column("id", keys).filter(pc.is_valid(table["outcome"]))
    same(bl.read(made, came))
    rows = came.to_pylist()
    for change, words in (({"arrived_at": -9}, "is -9, before"), ({"outcome": np.inf}, "is inf")):
        bad = pa.Table.from_pylist([*rows[:5], {**rows[5], **change}, *rows[6:]])
        refused(rf"in the row of key .k'{DRAWN.arrived[5]}\\n. {words}", made, bad)


def batch(**changes):
    columns = {
        "code": np.array([0, 1], dtype=np.uint16), "outcome": np.array([1.0, 2.0]), "propensity": np.array([0.5, 0.5]),
        "assigned": np.array([1, 2]), "arrived": np.array([1, 2]),
    }  # fmt: skip
    return Batch.of(**{**columns, **changes})


def test_a_batch_cannot_be_written_to():
    assert len(batch()) == 2
    for column in (batch().code, batch().outcome, batch().arrived):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


def test_a_row_without_a_time_is_named():
    for assigned, what in (([1, NEVER], "missing"), ([1.0, np.nan], "missing"), ([1.0, np.inf], "inf")):
        with pytest.raises(bl.LogError, match=f"`assigned_at` in row 7 is {what}; every assignment") as caught:
            batch(assigned=np.array(assigned)).check_times(6)
        assert caught.value.row == 7


def test_rows_are_named_by_key_or_time():
    assert row_name({"key": "a\nb", "assigned": 3}) == "the row of key 'a\\nb'"
    assert row_name({"key": None, "assigned": 3}) == row_name({"assigned": 3}) == "the row assigned at 3"
