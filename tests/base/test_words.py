from __future__ import annotations

import pytest

from belated.base.words import nearest

ESTIMATORS = ["daipw", "daipw_paper", "dipw", "mean", "hajek", "nh", "nh0", "iad", "all"]


@pytest.mark.parametrize(
    ("word", "names", "wanted"),
    [
        ("diapw", ESTIMATORS, "daipw"), ("DAIPW", ESTIMATORS, "daipw"), ("maen", ESTIMATORS, "mean"),
        ("hayek", ESTIMATORS, "hajek"), ("median_of_means", ESTIMATORS, None), ("x", ESTIMATORS, None),
        ("", ESTIMATORS, None), ("variants", ["Variant", "outcome"], "Variant"), ("a", [], None),
    ],
)  # fmt: skip
def test_what_is_meant(word, names, wanted):
    assert nearest(word, names) == wanted


def test_long_names_are_compared_by_their_beginnings():
    assert nearest("x" * 10_000, ["y" * 10_000, "x" * 9_000]) == "x" * 9_000
