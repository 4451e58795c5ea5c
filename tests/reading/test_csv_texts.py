"""What the texts of a CSV file hold."""

from __future__ import annotations

import pytest

from belated.base.errors import OptionError
from belated.reading.csv_texts import TextFormat, has_year_last, kind_of_texts, truths_of, zones_of


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", " 2 ", "-3"], "integer"), (["1", "2.5", ".5", "1e3", "inf"], "number"), (["1", "", "NA"], "integer"),
        (["true", "False", "yes"], "boolean"), (["2026-03-01", "2026-03-02"], "time"), (["A", "B"], "text"),
        (["1.5", "2", "n/a?"], "mixed"), (["", "null"], "other"), ([], "other"),
    ],
)  # fmt: skip
def test_the_kind_of_a_column(texts, kind):
    assert kind_of_texts(texts, TextFormat()) == kind


def test_the_format_decides_what_a_number_and_a_date_are():
    assert kind_of_texts(["1,5", "2"], TextFormat(decimal=",")) == "number"
    assert kind_of_texts(["1,5", "2,25"], TextFormat()) != "number"
    assert kind_of_texts(["01.03.2026"], TextFormat(date_format="%d.%m.%Y")) == "time"


def test_words_for_true_are_those_of_most_texts():
    assert truths_of(["Yes", "no", "true"]) == ("yes", "no")


def test_a_year_may_come_last():
    assert has_year_last(["2026-03-01", " 1/3/2026"])
    assert not has_year_last(["2026-03-01"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"encoding": "klingon"}, "`encoding` is 'klingon'; it must be the name of an encoding"),
        ({"decimal": ";"}, "`decimal` is ';'; it must be"),
        ({"date_format": "year"}, "`date_format` is 'year'; it must be 'day-first'"),
    ],
)
def test_a_format_that_cannot_be_is_refused(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        TextFormat(**options)


def test_the_first_option_that_was_given():
    assert TextFormat().given is None
    assert TextFormat(decimal=",", date_format="day-first").given == "decimal"
    assert TextFormat(date_format="day-first").order == "day-first"
    assert TextFormat(date_format="%d.%m.%Y").pattern == "%d.%m.%Y"


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("2026-03-01 14:30:00+02:00", {True}), ("2026-03-01T14:30Z", {True}), ("2026-03-01 14:30:00.5 UTC", {True}),
        ("2026-03-01 14:30-0200", {True}), ("2026-03-01", {False}), ("2026-03-01 14:30:00", {False}), ("NaT", set()),
        ("2026-03-01 14:30:00 Europe/Berlin", {True}), ("2026-03-01 14:30 UTC+2", {True}),
    ],
)  # fmt: skip
def test_the_zone_of_a_text(text, has):
    assert zones_of([text], TextFormat()) == has


def test_a_pattern_tells_whether_there_is_a_zone():
    for pattern, has in (("%d %b %Y %H:%M %z", {True}), ("%d %b %Y %H:%M", {False})):
        assert zones_of(["x"], TextFormat(date_format=pattern)) == has
