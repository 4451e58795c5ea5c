from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.base import text
from belated.base.text import columns_of, few_labels, first_few, pad_left, pad_right, printable, shorten, shorten_all


def test_counts_and_levels():
    assert text.count(1, "row") == "1 row"
    assert text.count(1234, "row") == "1,234 rows"
    assert text.percent(0.95) == "95%"
    assert text.percent(0.999) == "99.9%"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("A - B: 95%", ["A - B: 95%"]),
        ("é - 漢", ["é - 漢"]),
        ("שלום", ["", "שלום", ""]),
        ("שלום טוב - مرحبا: 95%", ["", "שלום טוב", " - ", "مرحبا", ": 95%"]),
        ("arm 'בית-ספר' has 5", ["arm '", "בית-ספר", "' has 5"]),
        ("א, ב", ["", "א", ", ", "ב", ""]),
    ],
)
def test_names_written_from_right_to_left_are_parts_of_their_own(words, parts):
    assert text.by_direction(words) == parts


@given(st.text(), st.integers(min_value=1, max_value=80))
def test_one_line_is_printable_and_no_longer_than_asked(label, longest):
    line = text.one_line(label, longest)
    assert line.isprintable()
    assert len(line) <= longest


def test_one_line_keeps_what_it_can():
    assert text.one_line("two\nlines\x1b[31m") == "two\\nlines\\x1b[31m"
    assert text.one_line(("a", 1)) == "('a', 1)"
    assert text.one_line("x" * 60 + "y") == "x" * 40 + "…" + "x" * 18 + "y"


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01T00:00:00", "2026-03-01"),
        ("2026-03-01T12:30:00", "2026-03-01 12:30:00"),
        ("2026-03-01T12:30:00.250000", "2026-03-01 12:30:00.25"),
        ("2026-03-01T00:00:00.000000", "2026-03-01"),
    ],
)
def test_moments_are_short(moment, words):
    assert text.moment_text(np.datetime64(moment)) == words


@pytest.mark.parametrize(
    ("amount", "unit", "words"),
    [
        (36, "h", "1.5 d"),
        (90, "m", "1.5 h"),
        (90, "s", "1.5 min"),
        (250, "ms", "250 ms"),
        (3, "us", "3 us"),
        (0, "s", "0 s"),
    ],
)
def test_durations_are_in_the_largest_unit_they_fill(amount, unit, words):
    assert text.duration_text(np.timedelta64(amount, unit)) == words


def test_p_values_in_words():
    assert text.p_words(0.04321) == "= 0.0432"
    assert text.p_words(0.04321, 2) == "= 0.043"
    assert text.p_words(0.5) == "= 0.500"
    assert text.p_words(0.5, 2) == "= 0.5"
    assert text.p_words(1e-5) == text.p_words(1e-5, 2) == "< 0.0001"
    assert text.p_value_text(None) == text.p_value_text(math.nan) == "–"


@given(st.floats(min_value=0, max_value=1))
def test_a_p_value_is_never_written_as_zero(p_value):
    assert text.p_value_text(p_value).strip("0.") != ""


def test_cells():
    assert [text.count_text(value) for value in (1234567, np.int64(3), None, math.nan)] == ["1,234,567", "3", "–", "–"]
    assert [text.share_text(value) for value in (0.123456, np.float32(0.5), None)] == ["12.3%", "50.0%", "–"]
    assert [text.statistic_text(value) for value in (1.23456, -1e-9, math.nan, -math.inf)] == [
        "1.23", "0.00", "–", "-∞"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234.0, "1,234"),
        (0.123456, "0.1235"),
        (1234.4, "1,234"),
        (9999.6, "10,000"),
        (-12345.6, "-12,346"),
        (1e15, "1e+15"),
        (math.inf, "∞"),
        (np.datetime64("NaT", "s"), "–"),
        (np.timedelta64(90, "m"), "1.5 h"),
        (np.datetime64("2026-03-01"), "2026-03-01"),
        ("never", "never"),
        (True, "1"),
    ],
)
def test_numbers(value, words):
    assert text.number_text(value) == words


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_an_estimate_is_within_a_twentieth_of_its_standard_error(value, error):
    written = float(text.estimate_text(value, error).replace(",", ""))
    assert abs(written - value) <= max(error / 20, abs(value) * 1e-5) * (1 + 1e-9)


def test_estimates_without_a_standard_error():
    assert text.estimate_text(1.23456789, None) == "1.23457"
    assert text.estimate_text(210225.4, None) == "210,225"
    assert text.estimate_text(2512345.6, None) == "2,512,346"
    assert text.estimate_text(None, 1.0) == "–"
    assert text.estimate_text(-math.inf, 1.0) == "-∞"


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0.1234, 0.03, "12%"),
        (0.1234, 0.003, "12.3%"),
        (-0.00001, 0.003, "0.0%"),
        (12.345, 2.0, "1,234%"),
        (0.12345, math.nan, "12.3%"),
        (0.12345, 0.0, "12.3%"),
        (math.inf, 0.1, "∞"),
        (None, None, "–"),
    ],
)
def test_changes(value, error, words):
    assert text.change_text(value, error) == words


def test_what_is_not_a_number_is_no_number():
    with pytest.raises(TypeError, match="'x' is not a number"):
        text.as_number("x")


def test_a_value_is_shown_however_deep_it_is():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert text.shown(deep) == "a list that is nested too deep"
    assert text.shown(["a", 1]) == "['a', 1]"
    assert text.shown(16**5000) == "a number that is too long to show"


def test_an_estimated_share_is_shown_between_0_and_100_percent():
    assert [text.share_text(share) for share in (1.017, 1.0, 0.8943, -0.0003, -1e-17, math.nan)] == [
        "100.0%", "100.0%", "89.4%", "0.0%", "0.0%", "–",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "error", "unit", "words"),
    [
        (0.15623, 0.0039, "number", "0.1562"),
        (0.15623, 0.0039, "percent", "15.62%"),
        (0.0486, 0.0114, "points", "4.9"),
        (-0.00001, 0.01, "points", "0.0"),
        (0.5, 0.0, "percent", "50%"),
        (math.inf, 0.01, "percent", "∞"),
        (math.nan, 0.01, "points", "–"),
    ],
)
def test_estimates_in_their_units(value, error, unit, words):
    assert text.estimate_text(value, error, unit) == words


@pytest.mark.parametrize(
    ("value", "error", "unit", "words"),
    [
        (0.0049, 0.21, "number", "0.005"),
        (-0.0049, 0.21, "number", "-0.005"),
        (0.0, 0.21, "number", "0.00"),
        (-1e-17, 0.21, "number", "0.00"),
        (0.51, 0.21, "number", "0.51"),
        (-30.4, 970.0, "number", "-30"),
        (-0.0004, 0.023, "points", "-0.04"),
        (0.0004, 0.023, "percent", "0.04%"),
        (math.inf, 0.21, "number", "∞"),
        (math.nan, 0.21, "points", "–"),
        (0.001, None, "number", "0.001"),
    ],
)
def test_a_limit_is_rounded_to_0_only_if_it_is_0(value, error, unit, words):
    assert text.limit_text(value, error, unit) == words


def test_values_in_their_units():
    shown = [text.in_unit(value, unit) for unit in ("number", "percent", "points") for value in (0.0, 0.01, 0.125)]
    assert shown == ["0", "0.01", "0.125", "0", "1%", "12.5%", "0", "1 point", "12.5 points"]
    assert text.in_unit(math.inf, "points") == "∞"
    assert [text.in_unit(value, "number") for value in (-1234.0, 20_000.0, 1e-5)] == ["-1,234", "20,000", "1e-05"]
    assert text.with_unit("–", "points") == "–"


def test_what_joins_emoji_stays_and_what_turns_text_around_does_not():
    assert text.printable("👨‍👩‍👧") == "👨‍👩‍👧"
    assert text.printable("a\u200db") == "a\\u200db"
    assert text.shown("\N{WOMAN}\u200d\N{GIRL}") == "'\N{WOMAN}\u200d\N{GIRL}'"
    assert text.shown("a\u200db") == "'a\\u200db'"
    assert text.printable("a\u202eb") == "a\\u202eb"


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


def test_a_name_that_has_room_stays_as_it_is_beside_names_that_have_none():
    names = ["arm 1", "arm 2", *[f"Arm number {k} of those that begin and end alike" for k in range(2)]]
    assert shorten_all(names, 14) == ["arm 1", "arm 2", "…r 0 of those…", "…r 1 of those…"]


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(min_value=9, max_value=60))
def test_different_names_stay_different_and_fit(names, room):
    short = shorten_all(names, room)
    assert all(columns_of(name) <= room for name in short)
    assert len(set(short)) == len(set(map(printable, names)))


@given(st.text(), st.integers(min_value=2, max_value=40))
def test_a_short_name_fits(name, room):
    assert columns_of(shorten(name, room)) <= room


def test_the_first_few_of_many():
    assert first_few(["a"]) == "a"
    assert first_few("abcde") == "a, b, c, d, e"
    assert first_few("abcdef") == "a, b, c, d, e and 1 more"
    assert first_few(map(str, range(2_000)), 2) == "0, 1 and 1,998 more"
    assert few_labels(["A\n", 1]) == "'A\\n', 1"


@pytest.mark.parametrize("room", range(3, 20))
def test_a_joined_emoji_that_is_cut_leaves_no_joiner_behind(room):
    family = "👩\u200d👩\u200d👧\u200d👦 family 🎉 discount 👩\u200d👩\u200d👧\u200d👦"
    short = shorten(family, room)
    assert printable(short) == short
    assert columns_of(short) <= room


@pytest.mark.parametrize("room", range(2, 12))
def test_a_mark_stays_with_its_letter(room):
    """No accent is over the dots, and no letter has lost its own."""
    name = "e\u0301" * 30
    for short in (shorten(name, room), text.one_line(name, room)):
        head, _, tail = short.partition("…")
        assert head == "e\u0301" * (len(head) // 2)
        assert tail == "e\u0301" * (len(tail) // 2)


def test_labels_that_differ_in_spaces_stay_different():
    assert shorten_all(["A", "A ", "", " "], 20) == ["A", "'A '", "''", "' '"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["caf\u00e9", "cafe\u0301"], ["caf\u00e9", "cafe\\u0301"]),
        (["cafe\u0301", "th\u00e9"], ["cafe\u0301", "th\u00e9"]),  # nothing looks like it
        (["A", "\u0391", "\u0410"], ["A", "\\u0391", "\\u0410"]),  # Greek and Cyrillic
        (["\u041c\u043e\u0441\u043a\u0432\u0430", "A"], ["\u041c\u043e\u0441\u043a\u0432\u0430", "A"]),
        (["K", "\u212a"], ["K", "\\u212a"]),  # the sign of kelvin
        (["\uac01", "\u1100\u1161\u11a8"], ["\uac01", "\\u1100\\u1161\\u11a8"]),  # Hangul
        (["A", "A\ufe0e"], ["A", "A\\ufe0e"]),  # a variation selector
        (["\u3164", "\u2800"], ["\\u3164", "\\u2800"]),  # blank letters
        (["q\u0323\u0307", "q\u0307\u0323"], ["q\u0323\u0307", "q\\u0307\\u0323"]),
    ],
)
def test_labels_that_look_alike_are_told_apart(labels, expected):
    assert shorten_all(labels, 40) == expected


def test_a_sentence_spells_out_a_letter_written_in_the_unusual_way():
    assert text.shown("caf\u00e9") == "'caf\u00e9'"
    assert text.shown("cafe\u0301") == "'cafe\\u0301'"
