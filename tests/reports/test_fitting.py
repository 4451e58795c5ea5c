"""Labels of charts fit the room that they have."""

from __future__ import annotations

import pytest

from belated.reports.fitting import fit, fit_all, width

HOSTILE = [
    "<script>window.pwned=1</script>",
    "quo\"te' & <b>bold</b>",
    "two\nlines\r\x00",
    "é 漢 \ud800 \ufffe \u202e",
    "🎉",
    "x" * 10_000,
    "שלום",
    "",
    "W" * 60,
]


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_fit(label):
    short = fit(label, 12)
    assert len(short) <= 12
    assert short.isprintable()


def test_long_labels_are_cut_where_they_are_alike():
    names = [f"a_very_long_prefix_{k:02}_and_a_long_suffix" for k in range(20)]
    assert fit_all(names, 12) == [f"…prefix_{k:02}…" for k in range(20)]
    assert fit_all(names, 9) == [f"…{k:02}…" for k in range(20)]
    assert fit_all([name[12:] for name in names], 12)[7] == "prefix_07…"
    assert fit_all(["A", "B"], 12) == ["A", "B"]
    assert fit_all(["x" * 50, "x" * 50], 12) == ["xxxxx…xxxxx"] * 2
    assert fit_all([], 12) == []


def test_wide_characters_need_more_room():
    assert width("漢") > width("x")
    assert len(fit("漢" * 20, 12)) < len(fit("x" * 20, 12))
