from __future__ import annotations

import numpy as np
import pytest

from belated.base.errors import LogError
from belated.reading.wide import wide


@pytest.mark.parametrize(
    ("columns", "arms", "found", "extra"),
    [
        ("p_1 p_11 p_111", [1, 11], "p_1 p_11", {111: "p_111"}),
        ("p_A p_AA p_B", ["A", "AA"], "p_A p_AA", {"B": "p_B"}),
        ("p_a p_b", ["A", "B"], "p_a p_b", {}),
        ("p_a p_b p_A p_B", ["A", "B"], "p_A p_B", {"a": "p_a", "b": "p_b"}),
        ("P_A P_B P_C", ["a", "b"], "P_A P_B", {"C": "P_C"}),
        ("A_prob B_prob", ["A", "B"], "A_prob B_prob", {}),
        ("p_A_logged p_B_logged", ["A", "B"], "p_A_logged p_B_logged", {}),
        ("probA probB proba", ["A", "B"], "probA probB", {}),
        ("p1 p2 price", [1, 2], "p1 p2", {}),
        ("p_True p_False", [True, False], "p_True p_False", {}),
        ("p_true p_false", [np.True_], "p_true", {False: "p_false"}),
        ("p_0 p_1 p_value", [np.int64(0), np.int64(1)], "p_0 p_1", {}),
        ("p_0 p_1", [0.0, 1.0], "p_0 p_1", {}),
        (
            "p_free_shipping p_ten_percent_off",
            ["Free Shipping", "ten-percent off"],
            "p_free_shipping p_ten_percent_off",
            {},
        ),
        ("p_0.5 p_1.5 p_2.5", [0.5, 1.5], "p_0.5 p_1.5", {"2.5": "p_2.5"}),
        ("A B other", ["A", "B"], "A B", {}),
        ("score_A score_B x_A x_B", ["A", "B"], "score_A score_B", {}),
        ("p_A p_B revenue_A revenue_B prob_sale_A prob_sale_B", ["A", "B"], "p_A p_B", {}),
        ("p_A", ["A"], "p_A", {}),
    ],
)
def test_wide(columns, arms, found, extra):
    assert wide(columns.split(), arms) == (dict(zip(arms, found.split(), strict=True)), extra)


@pytest.mark.parametrize(
    ("columns", "arms"),
    [("p_A", ["A", "B"]), ("p_A B_p", ["A", "B"]), ("pa pb", ["a", "b"]), ("x_A", ["A"]), ("", ["A"]), ("p_A p_B", [])],
)
def test_not_wide(columns, arms):
    assert wide(columns.split(), arms) is None


def test_two_sets_of_columns_compete():
    with pytest.raises(LogError, match=r"Columns 'p_\*', 'prob_\*' could each be the propensities; say which"):
        wide(["p_A", "p_B", "prob_A", "prob_B"], ["A", "B"])
    with pytest.raises(LogError, match=r"'x_\*', 'y_\*' could each"):
        wide(["x_A", "x_B", "y_A", "y_B"], ["A", "B"])
    assert wide(["x_A", "x_B", "y_A", "y_B"], ["A", "B"], sure=True) is None
    assert wide(["x_A", "x_B", "y_A", "y_B"], ["A", "B"], "y_*") == ({"A": "y_A", "B": "y_B"}, {})
