from __future__ import annotations

import datetime as dt
import math

import pandas as pd
import pyarrow as pa
import pytest
from drawn import refused, write

import belated as bl
from belated.reading.csv_texts import compact_pattern
from belated.reading.first_look import check_numbers

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]

ROWS = 24
SENT = [dt.datetime(2026, 3, 20, 9, 30) + dt.timedelta(days=i) for i in range(ROWS)]
ARRIVED = [when + dt.timedelta(days=2) for when in SENT]


def frame(sent, arrived):
    return pd.DataFrame(
        {"arm": ["A", "B"] * 12, "outcome": [1, 0, 0] * 8, "p": 0.5, "assigned_at": sent, "arrived_at": arrived}
    )


def csv_of(sent, arrived):
    return write("a.csv", frame(sent, arrived).to_csv(index=False))


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["20260301", " 20260302"], "%Y%m%d"),
        (["202603010930"], "%Y%m%d%H%M"),
        (["20260301093000"], "%Y%m%d%H%M%S"),
        (["20260301", "20260232"], None),  # no such day
        (["20260301", "202603010930"], None),
        (["10000101"], None),
        (["1767225600"], None),
        (["２０２６０３０１"], None),
        ([], None),
    ],
)
def test_dates_without_marks(texts, pattern):
    assert compact_pattern(texts) == pattern


@pytest.mark.parametrize("pattern", ["%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
def test_dates_without_marks_are_dates_in_a_csv_file(pattern):
    texts = [[each.strftime(pattern) for each in times] for times in (SENT, ARRIVED)]
    texts[1][3] = None
    table = frame(*texts)
    table["outcome"] = table["outcome"].astype("Int64").where(table.index != 3)
    log = bl.read(write("a.csv", table.to_csv(index=False))).log()
    assert log.assigned_at.tolist() == [dt.datetime.strptime(each, pattern) for each in texts[0]]
    assert str(bl.read("a.csv", as_of="2026-04-01").as_of).startswith("2026-04-01")


def test_a_late_line_that_is_no_date_is_named():
    texts = ["20260301"] * 11_000 + ["20260399"]
    table = pd.DataFrame({"arm": "A", "outcome": 1, "p": 0.5, "assigned_at": texts})
    refused(
        "line 11,002 has '20260399' in column 'assigned_at'; it must be a time in the format '%Y%m%d'.$",
        write("a.csv", table.to_csv(index=False)),
    )


def test_numbers_that_look_like_dates_are_refused_elsewhere():
    dates = [[int(each.strftime("%Y%m%d")) for each in times] for times in (SENT, ARRIVED)]
    refused("`assigned_at` is 20260320 to 20260412, whole numbers that look like dates", frame(*dates))


@pytest.mark.parametrize("read", [frame, csv_of])
@pytest.mark.parametrize(("sent", "arrived"), [(1, 10**3), (10**3, 1), (10**9, 10**6)])
def test_times_in_different_units_are_refused(read, sent, arrived):
    seconds = [[int(each.timestamp()) for each in times] for times in (SENT, ARRIVED)]
    given = read([each * sent for each in seconds[0]], [each * arrived for each in seconds[1]])
    refused("since 1970, .*; both must be in one unit|before its assignment", given)


def test_nanoseconds_since_1970_keep_every_digit():
    start = 1_767_225_600_000_000_000
    source = bl.read(csv_of([start + i for i in range(ROWS)], [start + i + 7 for i in range(ROWS)]), as_of=start + 20)
    assert source.log().assigned_at.tolist() == [start + i for i in range(21)]


@pytest.mark.parametrize(
    "times", [(0, 10, 12), (5.5, 9.25, math.nan), (-3, 1_767_225_600, 1_767_225_900), (1, 2, 10**30)]
)
def test_steps_are_steps(times):
    check_numbers(*times)


def test_delays_after_times_in_nanoseconds_keep_every_digit():
    sent = pd.Series(SENT).astype("datetime64[ns]") + pd.Timedelta(789, unit="ns")
    table = frame(sent, None).drop(columns="arrived_at").assign(delay=pd.Timedelta(2, unit="D"))
    wanted = (sent + pd.Timedelta(2, unit="D")).to_numpy()
    assert (bl.read(table).log().arrived_at == wanted).all()
    import ibis

    connection = ibis.duckdb.connect()
    connection.con.register("sent", pa.Table.from_pandas(table))
    assert (bl.read(connection.table("sent")).log().arrived_at == wanted).all()


@pytest.mark.parametrize(("later", "share"), [(-1, 1), (0, 1), (1, 0)])
def test_windows_after_times_in_nanoseconds_keep_every_digit(later, share):
    sent = pd.Series(SENT).astype("datetime64[ns]") + pd.Timedelta(789, unit="ns")
    table = frame(sent, None).drop(columns=["arrived_at", "outcome"]).assign(id=range(ROWS))
    bought = pd.DataFrame({"id": range(ROWS), "bought_at": sent + pd.Timedelta("2D") + pd.Timedelta(later, unit="ns")})
    source = bl.read(table, bought, events="indicator", window="2d", as_of="2026-06-01")
    assert bl.estimate(source).values.tolist() == [share, share]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_moment_in_nanoseconds_keeps_every_digit(zone):
    sent = pd.Series(SENT).astype("datetime64[ns]").dt.tz_localize(zone) + pd.Timedelta(789, unit="ns")
    table = frame(sent, None).drop(columns="arrived_at")
    for moment in (sent[9], str(sent[9])):
        assert len(bl.read(table, as_of=moment)) == 10
        assert len(bl.read(table, as_of=moment).log()) == 10


@pytest.mark.parametrize("far", [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)])
def test_times_that_do_not_fit_nanoseconds_beside_some_in_nanoseconds(far):
    """An arrival at the end of time is how a warehouse may say never."""
    sent = [far, *SENT[1:]] if far.year == 1 else SENT
    arrived = ARRIVED if far.year == 1 else [*ARRIVED[:-1], far]
    units = ("us", "ns") if far.year == 1 else ("ns", "us")
    columns = {"arm": ["A", "B"] * 12, "outcome": [1.0, 0.0, 0.0] * 8, "p": [0.5] * ROWS}
    times = [pa.array(each, pa.timestamp(unit)) for each, unit in zip((sent, arrived), units, strict=True)]
    table = pa.table({**columns, "assigned_at": times[0], "arrived_at": times[1]})
    log = bl.Log.from_frame(
        table, arm="arm", outcome="outcome", propensity="p", assigned_at="assigned_at", arrived_at="arrived_at"
    )
    assert bl.read(table).log().arrived_at.tolist() == log.arrived_at.tolist()
    assert bl.estimate(bl.read(table)).values.tolist() == bl.estimate(log).values.tolist()
