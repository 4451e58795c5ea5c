from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.base.names import columns_of, pad_left, pad_right, shorten, shorten_all
from belated.base.text import printable


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("plain", 5),
        ("日本語", 6),
        ("한국", 4),
        ("ｆｕｌｌ", 8),
        ("é", 1),
        ("e\u0301\u0303", 1),
        ("😀", 2),
        ("👨‍👩‍👧", 2),
        ("👍🏽", 2),
        ("❤️", 2),
        ("🇩🇪", 2),
        ("", 0),
    ],
)
def test_columns_of_a_terminal(text, columns):
    assert columns_of(text) == columns
    assert pad_left(text, 12) == " " * (12 - columns) + text
    assert pad_right(text, 12) == text + " " * (12 - columns)


def test_what_differs_stays():
    names = [f"summer_campaign_2026_email_variant_{letter}" for letter in "ABC"]
    assert shorten_all(names, 12) == ["…variant_A", "…variant_B", "…variant_C"]
    middle = [f"a_long_beginning_of_a_name_{k}_and_a_long_end_of_it" for k in range(3)]
    assert shorten_all(middle, 10) == [f"…a_name_{k}…" for k in range(3)]
    assert shorten_all(["short", "x" * 40], 12) == ["short", "xxxxxx…xxxxx"]


def test_two_groups_of_names_that_begin_alike_stay_apart():
    names = [
        f"{season}_campaign_{letter}_for_customers_everywhere" for season in ("summer", "winter") for letter in "AB"
    ]
    short = shorten_all(names, 14)
    assert len(set(short)) == 4
    assert all(columns_of(name) <= 14 for name in short)


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(min_value=9, max_value=60))
def test_different_names_stay_different_and_fit(names, room):
    short = shorten_all(names, room)
    assert all(columns_of(name) <= room for name in short)
    assert len(set(short)) == len(set(map(printable, names)))


@given(st.text(), st.integers(min_value=2, max_value=40))
def test_a_short_name_fits(name, room):
    assert columns_of(shorten(name, room)) <= room


@pytest.mark.parametrize("room", range(3, 20))
def test_a_joined_emoji_that_is_cut_leaves_no_joiner_behind(room):
    family = "👩\u200d👩\u200d👧\u200d👦 family 🎉 discount 👩\u200d👩\u200d👧\u200d👦"
    short = shorten(family, room)
    assert printable(short) == short
    assert columns_of(short) <= room
