"""Times of which some have a zone."""

from __future__ import annotations

import pandas as pd
import pytest
from drawn import write

import belated as bl
from belated.reading.csv_texts import TextFormat, zones_of

pytestmark = [pytest.mark.usefixtures("empty_folder"), pytest.mark.filterwarnings("ignore::belated.BelatedWarning")]

ROWS = 24
SENT = pd.date_range("2026-03-01", periods=ROWS, freq="D")
NOTE = "The times of `{}` have no time zone, unlike those of `{}`; they count as UTC."


def frame(sent, bought):
    return pd.DataFrame(
        {"arm": ["A", "B"] * 12, "outcome": [1, 0, 0] * 8, "sent_at": sent, "bought_at": bought, "p": [0.5] * ROWS}
    )


def notes(*tables, **options):
    return [note for note in bl.read(*tables, **options).notes if "zone" in note]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_without_a_zone_are_remarked_on_if_others_have_one(unit):
    zoned = SENT.tz_localize("Europe/Berlin").as_unit(unit)
    plain = SENT.as_unit(unit) + pd.Timedelta("3h")
    assert notes(frame(zoned, plain)) == [NOTE.format("bought_at", "sent_at")]
    assert notes(frame(SENT.as_unit(unit), zoned + pd.Timedelta("3h"))) == [NOTE.format("sent_at", "bought_at")]
    assert notes(frame(zoned, zoned)) == notes(frame(SENT, plain)) == []


def test_files_and_two_tables():
    zoned, later = SENT.tz_localize("UTC"), SENT + pd.Timedelta("3h")
    frame(zoned, later).to_parquet("a.parquet")
    write("a.csv", frame(zoned.astype(str), later).to_csv(index=False))
    for path in ("a.parquet", "a.csv"):
        assert notes(path) == [NOTE.format("bought_at", "sent_at")]
    both = frame(zoned, later).assign(id=range(ROWS))
    two = both[["id", "arm", "sent_at", "p"]], both[["id", "outcome", "bought_at"]]
    assert notes(*two) == [NOTE.format("bought_at", "sent_at")]
    some = [f"{time}Z" if row % 2 else str(time) for row, time in enumerate(SENT)]
    write("b.csv", frame(some, later).to_csv(index=False))
    assert notes("b.csv") == ["Some times of `sent_at` have no time zone; they count as UTC."]


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("2026-03-01 14:30:00+02:00", {True}), ("2026-03-01T14:30Z", {True}), ("2026-03-01 14:30:00.5 UTC", {True}),
        ("2026-03-01 14:30-0200", {True}), ("2026-03-01", {False}), ("2026-03-01 14:30:00", {False}), ("NaT", set()),
    ],
)  # fmt: skip
def test_the_zone_of_a_text(text, has):
    assert zones_of([text], TextFormat()) == has


def test_a_pattern_tells_whether_there_is_a_zone():
    for pattern, has in (("%d %b %Y %H:%M %z", {True}), ("%d %b %Y %H:%M", {False})):
        assert zones_of(["x"], TextFormat(date_format=pattern)) == has
