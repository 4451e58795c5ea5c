"""Keys that two tables write in different ways."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from drawn import refused, write
from engines import Engine

import belated as bl

pytestmark = [pytest.mark.usefixtures("empty_folder"), pytest.mark.filterwarnings("ignore::belated.BelatedWarning")]

ROWS = 24
OPTIONS = {"key": "user_id", "propensity": "uniform", "assigned_at": "none", "arrived_at": "none"}


def assignments(keys):
    return pd.DataFrame({"user_id": keys, "arm": ["A", "B"] * (ROWS // 2)})


def outcomes(keys):
    return pd.DataFrame({"user_id": keys, "outcome": [float(i % 5) for i in range(ROWS)]})


def csv_of(name, frame):
    return write(name, frame.to_csv(index=False))


WHOLE = range(-3, ROWS - 3)
POINTED = [float(key) for key in WHOLE]


@pytest.mark.parametrize("first", [WHOLE, POINTED])
@pytest.mark.parametrize("second", [WHOLE, POINTED])
@pytest.mark.parametrize("read", [(csv_of, csv_of), (csv_of, None), (None, csv_of)])
def test_numbers_match_however_they_are_written(first, second, read):
    tables = [assignments(first), outcomes(second)]
    given = [
        table if write_ is None else write_(f"{i}.csv", table)
        for i, (table, write_) in enumerate(zip(tables, read, strict=True))
    ]
    wanted = bl.estimate(bl.read(assignments(WHOLE), outcomes(WHOLE), **OPTIONS))
    assert bl.estimate(bl.read(*given, **OPTIONS)).values.tolist() == wanted.values.tolist()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("first", [int, float, str])
def test_numbers_match_on_every_engine(engine: Engine, first):
    sent = {"user_id": [first(key) for key in WHOLE], "arm": ["A", "B"] * (ROWS // 2), "sent_at": list(WHOLE)}
    came = {"user_id": [*map(str, POINTED), None], "outcome": [*(float(i % 5) for i in range(ROWS)), 9.0]}
    options = {**OPTIONS, "assigned_at": "sent_at"}
    wanted = bl.estimate(bl.read(pa.table(sent), pa.table(came), **options))
    source = bl.read(engine.table(sent), engine.table(came), **options)
    assert bl.estimate(source).values.tolist() == pytest.approx(wanted.values.tolist(), rel=1e-12)
    assert bl.estimate(source).arrived.tolist() == wanted.arrived.tolist() == [ROWS // 2] * 2
    odd = engine.table({**came, "user_id": [*map(str, POINTED[:-1]), "1.5", None]})
    refused("None of the 25 outcomes belongs|they must be of one kind", engine.table(sent), odd, **options)


@pytest.mark.parametrize("odd", ["x", "01", "1.00", "1.5", "1e3", "1234567890123456", "-0"])
def test_one_key_that_is_no_whole_number_leaves_all_as_text(odd):
    keys = [f"{key}.0" for key in WHOLE]
    csv_of("a.csv", assignments([str(key) for key in WHOLE]))
    csv_of("b.csv", outcomes([*keys[:-1], odd]))
    refused("None of the 24 outcomes belongs to an assignment", "a.csv", "b.csv", **OPTIONS)
    csv_of("a.csv", assignments([*map(str, WHOLE[:-1]), odd]))
    csv_of("b.csv", outcomes(keys))
    refused("None of the 24 outcomes belongs to an assignment", "a.csv", "b.csv", **OPTIONS)


def test_keys_of_text_stay_apart():
    csv_of("a.csv", assignments([text for key in range(12) for text in (str(key), f"{key}.0")]))
    csv_of("b.csv", outcomes([f"{key}.0" for key in range(ROWS)]))
    source = bl.read("a.csv", "b.csv", **OPTIONS)
    assert "12 outcomes belong to no assignment and were left out." in source.notes
    assert bl.estimate(source).sums["arrived"].tolist() == [0, 12]
