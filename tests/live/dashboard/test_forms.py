from __future__ import annotations

import pytest

import belated as bl
from belated.base.checks import fraction
from belated.live.dashboard.forms import FormField, FormValues, duration, needed, perhaps, real, whole

FIELDS = [FormField("level", "Coverage", "How often."), FormField("name", "Name", "Whose.")]


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), ("1,000.5", 1000.5), ("-12 000", -12e3), ("-2e3", -2000.0)])
def test_a_number(text, value):
    assert real(text) == value


@pytest.mark.parametrize(
    "text", ["x", "nan", "inf", "-Infinity", "1e999", "0x10", "1;2", "0,5", "1,5", "0,125", "1,00", "2.1,000"]
)
def test_what_is_no_number(text):
    with pytest.raises(bl.OptionError, match=r"Write a number, such as 0\.5\."):
        real(text)


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("10,000", 10_000), ("10 000", 10_000), ("1,234,567", 1_234_567), ("0" * 15, 0)]
)
def test_a_whole_number(text, value):
    assert whole(text) == value


@pytest.mark.parametrize("text", ["1.5", "-1", "1e3", "²", "٣", "1" * 16, "x", "1,5", "10,00", "1 2"])
def test_what_is_no_whole_number(text):
    with pytest.raises(bl.OptionError, match="Write a whole number, such as 10000"):
        whole(text)


@pytest.mark.parametrize("reader", [needed, real, whole, duration(str)])
def test_what_is_needed_cannot_be_left_out(reader):
    with pytest.raises(bl.OptionError, match="Fill in this field"):
        reader("")
    assert perhaps(reader)("") is None


def test_a_duration_is_explained_in_words_of_the_form():
    assert duration(bl.live.events)("7d") == bl.live.events("7d")
    with pytest.raises(bl.OptionError, match="Write a duration, such as 7d, 12h or 30min"):
        duration(bl.live.events)("soon")


def test_what_is_wrong_is_said_beside_its_field_and_by_its_label():
    given = FormValues({"level": " 95 ", "name": "  Ada\n"}, FIELDS)
    assert given.read("level", lambda text: fraction("level", real(text))) is None
    assert given.read("name", needed) == "Ada"
    assert given.errors == {"level": "Coverage is 95.0; it must lie strictly between 0 and 1."}
    assert given.values == {"level": " 95 ", "name": "  Ada\n"}  # what was typed stays


def test_the_first_thing_that_is_wrong_counts():
    given = FormValues({"level": "x"}, FIELDS)
    given.read("level", real)
    given.read("level", whole)
    given.read("name", needed, about="level")
    given.refuse("name", bl.OptionError("there is one already."))
    assert given.errors == {"level": "Write a number, such as 0.5.", "name": "There is one already."}
