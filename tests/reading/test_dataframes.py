from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest
from drawn import DRAWN, refused

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def test_text_that_is_not_text():
    frame = DRAWN.wide().to_pandas()
    frame["arm"] = frame["arm"].astype(object).replace("A", "\ud83d")
    refused("is not text", frame, propensity={"\ud83d": "p_A", "B": "p_B"})


WITH_OUTCOME, WITHOUT_OUTCOME = int(DRAWN.arrived[5]), int(np.flatnonzero(DRAWN.out)[0])


@pytest.mark.parametrize(
    ("column", "value"), [("arm", 1), ("arm", ["A"]), ("outcome", "x"), ("assigned_at", "x"), ("p_A", Decimal("0.5"))]
)
def test_dataframes_that_mix_types(column, value):
    frame = DRAWN.wide().to_pandas()
    frame[column] = frame[column].astype(object)
    frame.at[WITH_OUTCOME, column] = value
    error = refused(f"Column '{column}' in row {WITH_OUTCOME} is {re.escape(repr(value))}; it must be of type", frame)
    assert error.row == WITH_OUTCOME
