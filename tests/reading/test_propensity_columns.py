from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from drawn import DRAWN, refused, same

import belated as bl

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def test_lists_of_propensities():
    def lists(change=lambda p: p):
        rows = [change(p) if i == 7 else p for i, p in enumerate(DRAWN.p.tolist())]
        return DRAWN.wide().drop(["p_A", "p_B"]).append_column("propensities", pa.array(rows, pa.list_(pa.float64())))

    same(bl.read(lists()))
    for change in (lambda p: p[:1], lambda p: None, lambda p: [None, p[1]], lambda p: [], lambda p: [np.nan, p[1]]):
        refused("`propensity` in row 7 for arm 'A' is nan", lists(change))
    refused("3 columns but `arm` has 2", lists(lambda p: [*p, 0.0]))
    refused("must sum to 1", lists(lambda p: [0.5, 0.6]))
    refused("must lie in", lists(lambda p: [-0.5, 1.5]))
    refused("gives the chosen arm", lists(lambda p: [float(DRAWN.code[7] != 0), float(DRAWN.code[7] != 1)]))


def test_an_arm_that_first_appears_after_hundreds_of_rows_is_found():
    documents = ['{"A": 0.5, "B": 0.5}'] * 500 + ['{"A": 0.4, "B": 0.4, "C": 0.2}'] * 400
    table = pa.table({"arm": ["A", "B"] * 450, "propensity": documents, "outcome": [1.0, 2.0] * 450})
    assert bl.read(table, propensity="propensity").arms == ("A", "B", "C")
