"""CSV files as people, programs and attackers write them: the right answer, or one sentence."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from drawn import refused, write

import belated as bl

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]

ROWS = 24
ARM = [("A", "B")[i % 3 == 0] for i in range(ROWS)]
P_A = [0.25 if i % 2 else 0.5 for i in range(ROWS)]
OUT = [i % 5 == 4 for i in range(ROWS)]
BOUGHT = [i % 7 in (0, 3) for i in range(ROWS)]
START = dt.datetime(2026, 3, 20)
SENT = [START + dt.timedelta(days=i) for i in range(ROWS)]  # into April, so that some days are above 12
ARRIVED = [when + dt.timedelta(days=i % 4) for i, when in enumerate(SENT)]


def columns(outcome=("True", "False"), missing="", when="%Y-%m-%d", share="{}"):
    """Return one experiment as columns of text."""
    return {
        "arm": list(ARM),
        "outcome": [missing if out else outcome[not bought] for bought, out in zip(BOUGHT, OUT, strict=True)],
        "assigned_at": [each.strftime(when) for each in SENT],
        "arrived_at": [missing if out else each.strftime(when) for each, out in zip(ARRIVED, OUT, strict=True)],
        "p_A": [share.format(p) for p in P_A],
        "p_B": [share.format(1 - p) for p in P_A],
    }


def text_of(table, separator=",", end="\n"):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=separator, lineterminator=end)
    writer.writerows([table, *zip(*table.values(), strict=True)])
    return file.getvalue()


def in_memory():
    return bl.Log(
        ARM, [np.nan if out else float(b) for b, out in zip(BOUGHT, OUT, strict=True)], [[p, 1 - p] for p in P_A],
        assigned_at=SENT, arrived_at=[None if out else when for when, out in zip(ARRIVED, OUT, strict=True)],
    )  # fmt: skip


WANTED = bl.estimate(in_memory())


def is_right(*args, **options):
    source = bl.read(*args, **options)
    got = bl.estimate(source)
    assert tuple(map(str, got.arms)) == ("A", "B")
    assert got.values == pytest.approx(WANTED.values, rel=1e-12)
    assert got.std_errors == pytest.approx(WANTED.std_errors, rel=1e-12)
    return source


PLAIN = text_of(columns())

# ---------------------------------------------------------------- what people have

RIGHT = {
    "as pandas writes it": (PLAIN, {}),
    "lower case": (text_of(columns(("true", "false"))), {}),
    "letters": (text_of(columns(("T", "f"))), {}),
    "yes and no": (text_of(columns(("Yes", "NO"))), {}),
    "y and n": (text_of(columns(("y", "N"))), {}),
    "ones": (text_of(columns(("1", "0"))), {}),
    "floats": (text_of(columns(("1.0", "0.0"))), {}),
    "exponents": (text_of(columns(("1e0", "0E0"))), {}),
    "spaces": (text_of(columns((" 1 ", " 0"), share=" {} ")), {}),
    **{f"missing is {word}": (text_of(columns(missing=word)), {}) for word in (
        "NA", "na", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "<NA>", "NaT", "#N/A", " nan ",
        "-nan", "\\N"
    )},
    "a byte order mark": ("\ufeff" + PLAIN, {}),
    "CRLF": (text_of(columns(), end="\r\n"), {}),
    "CR": (text_of(columns(), end="\r"), {}),
    "tabs": (text_of(columns(), "\t"), {}),
    "bars": (text_of(columns(), "|"), {}),
    "semicolons": (text_of(columns(), ";"), {}),
    **{f"{sign!r} between fields": (text_of(columns(), sign), {}) for sign in ": ^~\x01\x1f"},
    "colons, and times in quotes": (text_of(columns(when="%Y-%m-%dT%H:%M:%S"), ":"), {}),
    "no end of line": (PLAIN.rstrip("\n"), {}),
    "blank lines": ("\n\n" + PLAIN.replace("\n", "\n\n"), {}),
    "a comment": ("# exported on Monday\n" + PLAIN, {}),
    "an index": ("".join(f"{'' if i == 0 else i - 1},{line}\n" for i, line in enumerate(PLAIN.splitlines())), {}),
    "trailing separators": (re.sub("(?m)$", ",", PLAIN.rstrip("\n")), {"assigned_at": "assigned_at"}),
    "quotes everywhere": (re.sub(r"(?m)([^,\n]+)", r'"\1"', PLAIN), {}),
    "a quoted note": (
        text_of({"note": ['two\nlines, "so"'] * ROWS, **columns()}), {}
    ),
    "a long note": (text_of({"note": ["x" * 150_000] * ROWS, **columns()}), {}),
    "a byte 0 in a note": (text_of({"note": ["a\0b"] * ROWS, **columns()}), {}),
    "European Excel": (text_of(columns(share="{}"), ";").replace("0.", "0,"), {"decimal": ","}),
    "per cent": (text_of({**columns(), "p_A": [100 * p for p in P_A], "p_B": [100 - 100 * p for p in P_A]}),
                 {"propensity_unit": "percent"}),
    "per cent with signs": (
        text_of({**columns(), "p_A": [f"{100 * p}%" for p in P_A], "p_B": [f"{100 - 100 * p} %" for p in P_A]}),
        {"propensity_unit": "percent"},
    ),
    "a time": (text_of(columns(when="%Y-%m-%d %H:%M:%S")), {}),
    "ISO with Z": (text_of(columns(when="%Y-%m-%dT%H:%M:%SZ")), {}),
    "an offset": (text_of(columns(when="%Y-%m-%dT%H:%M:%S+00:00")), {}),
    "slashes, year first": (text_of(columns(when="%Y/%m/%d")), {}),
    "days above 12 tell": (text_of(columns(when="%d/%m/%Y")), {}),
    "months first, days above 12 tell": (text_of(columns(when="%m/%d/%Y")), {}),
    "points": (text_of(columns(when="%d.%m.%Y %H:%M")), {}),
    "day first": (text_of(columns(when="%d-%m-%Y")), {"date_format": "day-first"}),
    "month first": (text_of(columns(when="%m/%d/%Y %H:%M")), {"date_format": "month-first"}),
    "a pattern": (text_of(columns(when="%d %b %Y, %I:%M %p")), {"date_format": "%d %b %Y, %I:%M %p"}),
    "digits only": (text_of(columns(when="%Y%m%d")), {"date_format": "%Y%m%d"}),
    "two digits of the year": (text_of(columns(when="%d.%m.%y")), {"date_format": "%d.%m.%y"}),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_read(name):
    text, options = RIGHT[name]
    is_right(write("a.csv", text), **options)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-16", None), ("utf-8-sig", None), ("utf-32", None), ("latin-1", "latin-1"), ("cp1252", "windows-1252"),
     ("utf-16-le", "utf-16-le"), ("mac-roman", "mac-roman")],
)  # fmt: skip
def test_encodings(encoding, said):
    arms = ["Café" if arm == "A" else "Straße" for arm in ARM]
    table = {**columns(), "arm": arms, "p_Café": P_A, "p_Straße": [1 - p for p in P_A]}
    del table["p_A"], table["p_B"]
    write("a.csv", text_of(table), encoding)
    source = bl.read("a.csv", encoding=said)
    assert source.arms == ("Café", "Straße")
    assert bl.estimate(source).values == pytest.approx(WANTED.values)
    if said in ("latin-1", "windows-1252"):
        refused("not text in UTF-8; give its encoding with `encoding`", "a.csv")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_the_encoding_that_an_error_suggests_is_right(encoding):
    write("a.csv", text_of(columns()), encoding)
    refused(f"in UTF-16, use `encoding='{encoding}'`", "a.csv")
    is_right("a.csv", encoding=encoding)


def test_offsets_are_applied():
    late = [each.replace(tzinfo=dt.timezone(dt.timedelta(hours=i % 3))).isoformat() for i, each in enumerate(SENT)]
    source = bl.read(write("a.csv", text_of({**columns(), "assigned_at": late})), arrived_at="none", delay="none")
    assert source.log().assigned_at.tolist() == [when - dt.timedelta(hours=i % 3) for i, when in enumerate(SENT)]


@pytest.mark.parametrize("zone", [" +0230", " +02:30", "+0230", " Asia/Kolkata"])
def test_zones_as_warehouses_write_them(zone):
    late = [each.isoformat(" ") + zone for each in SENT]
    source = bl.read(write("a.csv", text_of({**columns(), "assigned_at": late})), arrived_at="none", delay="none")
    ahead = dt.timedelta(hours=5.5 if "/" in zone else 2.5)
    assert source.log().assigned_at.tolist() == [when - ahead for when in SENT]


def test_a_zone_that_is_in_two_places_is_refused():
    """BST is British summer time, and six hours ahead in Bangladesh."""
    for zone in ("BST", "IST", "CST"):
        late = [f"{each.isoformat(' ')} {zone}" for each in SENT]
        refused("with an offset such as", write("a.csv", text_of({**columns(), "assigned_at": late})))


def test_durations_as_pandas_writes_them():
    table = columns()
    del table["arrived_at"]
    delays = pd.Series([None if out else dt.timedelta(days=i % 4) for i, out in enumerate(OUT)], dtype="m8[ns]")
    is_right(write("a.csv", text_of({**table, "delay": ["" if x == "NaT" else x for x in delays.astype(str)]})))


def test_numbers_as_times_are_steps():
    since = [[int(each.timestamp() * 1000) for each in times] for times in (SENT, ARRIVED)]  # milliseconds since 1970
    steps = {"assigned_at": since[0], "arrived_at": ["" if out else t for t, out in zip(since[1], OUT, strict=True)]}
    is_right(write("a.csv", text_of({**columns(), **steps})))
    days = {"assigned_at": [46_100 + i + 0.5 for i in range(ROWS)],
            "arrived_at": ["" if out else 46_100 + i + i % 4 + 0.5 for i, out in enumerate(OUT)]}  # fmt: skip
    is_right(write("a.csv", text_of({**columns(), **days})))  # Excel's days


def test_arms_that_say_nothing_elsewhere_are_labels():
    for label in ("NA", "None", "null", "nan", "-", "n/a", "true", "T"):
        table = columns()
        table["arm"] = [label if arm == "B" else arm for arm in ARM]
        table[f"p_{label}"] = table.pop("p_B")
        assert set(bl.read(write("a.csv", text_of(table))).arms) == {"A", label}
    labels = {"arm": ["NA" if arm == "B" else "None" for arm in ARM]}
    assert bl.read(write("a.csv", text_of({**columns(), **labels})), propensity="uniform").arms == ("NA", "None")
    for missing, rows in ((["", "", ""], 24), (["", "A", "A"], 8)):
        path = write("a.csv", text_of({**columns(), "arm": missing * 8}))
        refused(f"`arm` in line 2 is missing, the first of {rows} rows", path)


def test_what_pandas_reads_is_what_we_read():
    for text in (PLAIN, text_of(columns(("1", "0"))), text_of(columns(missing="NaN"))):
        write("a.csv", text)
        frame = pd.read_csv("a.csv", parse_dates=["assigned_at", "arrived_at"])
        if frame["outcome"].dtype == object:
            frame["outcome"] = frame["outcome"].astype("boolean")
        assert bl.estimate(bl.read(frame)).values.tolist() == bl.estimate(bl.read("a.csv")).values.tolist()


# ---------------------------------------------------------------- what cannot be


def one(column, text, row=6):
    """Return the file with one other value."""
    table = columns()
    table[column][row] = text
    return text_of(table)


REFUSED = {
    "empty": ("", {}, "has no rows"),
    "blank": ("\n\n\n", {}, "has no rows"),
    "names only": (PLAIN.splitlines()[0] + "\n", {}, "has no rows"),
    "no names": (PLAIN.partition("\n")[2], {}, "its first line seems to hold values"),
    "a name twice": (PLAIN.replace("p_B", "p_A", 1), {}, "several columns named 'p_A'"),
    "names that differ in case": (PLAIN.replace("p_B", "P_A", 1), {}, "differ only in case"),
    "a field too many": (PLAIN + "A,True,2026-05-01,2026-05-01,0.5,0.5,9\n", {}, "line 26 has 7 fields, but .* 6"),
    "a field too few": (PLAIN + "A,True,2026-05-01\n", {}, "line 26 has 3 fields, but the first line has 6"),
    "one field": (PLAIN + "Total\n", {}, "line 26 has 1 field, but the first line has 6"),
    "an open quote": (PLAIN + '"A,True,2026-05-01,,0.5,0.5\n', {}, "quotation mark is not closed"),
    "colons also in times": (
        text_of(columns(when="%Y-%m-%dT%H:%M")).replace(",", ":"), {},
        "its first line, 'arm:.*', is a single field; it must hold the column names, separated by commas, semicolons"),
    "columns of a fixed width": (re.sub(r"(?m)^A,", "A   ", PLAIN).replace(",", " "), {}, "is a single field"),
    "no names, but codes": ("u1,A,0.3,0.5\nu2,B,0.9,0.5\nu3,A,1.3,0.5\n", {},
                            r"its first line seems to hold values \('u1', 'A', '0.3', ...\); it must hold the column"),
    "no names, but times": ("A,2026-01-01 10:00,0.3\nB,2026-01-02 11:30,0.9\nA,2026-01-03 09:00,-1.3\n", {},
                            "its first line seems to hold values"),
    "mixed words": (one("outcome", "yes"), {}, "line 8 has 'yes' in column 'outcome'; it must be true or false"),
    "an unknown word": (one("outcome", "maybe"), {}, "line 8 has 'maybe' in column 'outcome'; it must be true"),
    "a number among words": (one("outcome", "1"), {}, "line 8 has '1' in column 'outcome'; .* in the other rows.$"),
    "a dash": (one("outcome", "-"), {}, "'-' .*leave the field empty"),
    "a decimal comma": (PLAIN.replace(",", ";").replace("0.", "0,"), {}, "decimal mark, use `decimal=','`"),
    "a point with decimal commas": (PLAIN.replace(",", ";"), {"decimal": ","}, "numbers cannot contain points"),
    "per cent": (text_of({**columns(), "p_A": [50] * ROWS, "p_B": [50] * ROWS}), {},
                 "'A' is 50.0; it must lie .* so these seem to be per cent: use `propensity_unit='percent'`"),
    "signs of per cent": (text_of({**columns(), "p_A": ["50%"] * ROWS, "p_B": ["50%"] * ROWS}), {},
                          "has '50%' in column 'p_.'; .*`propensity_unit='percent'`"),
    "the chosen arm's, in per cent": (
        text_of({"propensity": [50] * ROWS, **{k: v for k, v in columns().items() if "p_" not in k}}), {},
        "`propensity` in line 2 is 50.0; .* it looks like per cent: use `propensity_unit='percent'`"),
    "the chosen arm's, with signs": (
        text_of({"propensity": ["50%"] * ROWS, **{k: v for k, v in columns().items() if "p_" not in k}}), {},
        "has '50%' in column 'propensity'; .*`propensity_unit='percent'`"),
    "fractions said to be per cent": (PLAIN, {"propensity_unit": "percent"}, "sums to 0.01"),
    "a date that can be read in two ways": (
        text_of({**columns(), "assigned_at": [f"{1 + i % 12:02}/02/2026" for i in range(ROWS)]}), {},
        "'01/02/2026', which can be read in two ways; give their format with `date_format`"),
    "points that can be read in two ways": (
        text_of({**columns(), "assigned_at": [f"{1 + i % 12}.2.2026" for i in range(ROWS)]}), {}, "in two ways"),
    "days and months mixed": (
        text_of({**columns(), "assigned_at": ["13/02/2026", "02/13/2026"] * 12}), {},
        "'13/02/2026', with the day first, and '02/13/2026', with the month first"),
    "not day first": (text_of(columns(when="%m/%d/%Y")), {"date_format": "day-first"},
                      "has '03/20/2026' in column 'assigned_at'; it must be a time"),
    "another pattern": (PLAIN, {"date_format": "%d.%m.%Y"}, "has '2026-03-20' in column 'assigned_at'"),
    "no such pattern": (PLAIN, {"date_format": "%Q"}, "`date_format` is '%Q'; it must be 'day-first', "),
    "afternoons": (text_of(columns(when="%m/%d/%Y %I:%M %p")), {}, "`date_format`, such as '%m/%d/%Y %I:%M %p'"),
    "no pattern": (PLAIN, {"date_format": "dd.mm.yyyy"}, "'day-first', 'month-first' or a pattern"),
    "two digits of the year": (text_of(columns(when="%d.%m.%y")), {},
                               "two digits with `date_format`, such as '%d.%m.%y'"),
    "day first, two digits of the year": (text_of(columns(when="%d.%m.%y")), {"date_format": "day-first"},
                                          "two digits with `date_format`, such as '%d.%m.%y'"),
    "names of months, of arrivals": (
        text_of({**columns(), "arrived": ["" if out else "1 Mar 2026" for out in OUT]}).replace("arrived_at", "note"),
        {}, "if these are times in a CSV file, give `date_format`"),
    "names of months": (text_of(columns(when="%d %b %Y")), {}, "give another with `date_format`"),
    "no such day": (one("assigned_at", "2026-02-30"), {}, "line 8 has '2026-02-30' in column 'assigned_at'"),
    "a word among times": (one("assigned_at", "soon"), {}, "line 8 has 'soon' in column 'assigned_at'"),
    "afternoon": (one("assigned_at", "2026-03-26 03:00 PM"), {}, "has '2026-03-26 03:00 PM'"),
    "epoch": (one("assigned_at", "epoch"), {}, "has 'epoch'"),
    "no such encoding": (PLAIN, {"encoding": "utf-99"}, "`encoding` is 'utf-99'; it must be the name of an encoding"),
    "no text encoding": (PLAIN, {"encoding": "base64"}, "`encoding` is 'base64'"),
    "not in that encoding": (PLAIN.replace("arm", "ärm"), {"encoding": "ascii"}, "it is not text in ascii"),
    "no such mark": (PLAIN, {"decimal": ";"}, r"`decimal` is ';'; it must be '\.' or ','"),
    "a byte 0 in a name": (PLAIN.replace("arm", "a\0m", 1), {}, "in UTF-16, use `encoding='utf-16-le'`"),
    "no propensities": (text_of({k: v for k, v in columns().items() if "p_" not in k}), {},
                        "`propensity='uniform'` or `propensity='A=0.5,B=0.5'`"),
    "a label in another case": (one("arm", "a"), {}, "Arm 'a' has no column of propensities, unlike the others"),
    "a label with a space": (one("arm", "A "), {}, "Arm 'A ' has no column of propensities, unlike the others"),
    "the names again": (PLAIN + PLAIN.splitlines()[0] + "\n", {}, "line 26 has '.*' in column '"),
    "an odd label": (text_of({**columns(), "arm": [*ARM[:-1], "Bb"]}), {}, "Arm 'Bb' has no column of propensities"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_a_sentence(name):
    text, options, words = REFUSED[name]
    refused(words, write("a.csv", text), **options)


def test_a_comma_that_may_separate_thousands_is_not_called_decimal():
    file = write("a.csv", one("outcome", "1,500").replace("True", "1").replace("False", "0"))
    refused("if the comma separates thousands, write the number without it; if it is a decimal mark, use", file)


@pytest.mark.parametrize(
    "text", ["26:00:00", "1 day 02:00:00", "1 day, 2:00:00", "1 days 02:00:00.000000123", "026:00:00"]
)
def test_durations_of_python_and_spreadsheets(text):
    table = columns()
    del table["arrived_at"]
    file = write("a.csv", text_of({**table, "delay": ["" if out else text for out in OUT]}))
    for hours, last in ((25, 1), (26, 0)):  # the last row's outcome is not there, and then it is
        whole = bl.read(file, as_of=str(SENT[-1] + dt.timedelta(hours=hours)))
        assert bl.estimate(whole).sums["arrived"].sum() == ROWS - sum(OUT) - last * (not OUT[-1])


def test_a_first_line_for_spreadsheets_names_the_separator():
    write("b.csv", PLAIN)
    for mark in ("sep=;", '"SEP=;"'):
        write("a.csv", f"{mark}\n" + PLAIN.replace(",", ";"))
        assert bl.estimate(bl.read("a.csv")).values.tolist() == bl.estimate(bl.read("b.csv")).values.tolist()


@pytest.mark.parametrize(
    "value", ["1,000", "1.000,5", "1'000", "$5", "5 €", "1 000", "5%", "0x10", "1e", "१२", "1_000", "+-1"]
)
def test_other_numbers_are_refused(value):
    table = columns(("1", "0"))
    table["outcome"][6] = value
    refused(
        f"line 8 has {re.escape(repr(value))} in column 'outcome'; it must be a number", write("a.csv", text_of(table))
    )


def test_lines_are_those_of_the_file():
    table = {"note": ["two\nlines"] * ROWS, **columns()}
    table["outcome"][6] = "perhaps"
    refused("line 14 has 'perhaps'", write("a.csv", text_of(table)))
    refused("line 17 has 'perhaps'", write("a.csv", "# a\n\n# b\n" + text_of(table)))


def test_options_of_text_need_a_text_file():
    frame = pd.DataFrame({"arm": ARM, "outcome": BOUGHT, "p_A": P_A, "p_B": [1 - p for p in P_A]})
    for option in ({"decimal": ","}, {"encoding": "latin-1"}, {"date_format": "day-first"}):
        refused(f"`{next(iter(option))}` is given, but no CSV file is read", frame, **option)


def test_lines_that_end_in_different_ways():
    lines = PLAIN.splitlines()
    text = "\r\n".join(lines[:10]) + "\r\n" + "\n".join(lines[10:]) + "\n"
    refused("its lines end in different ways; save it with line ends of one kind", write("a.csv", text))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("end", ["", "\r\n"])
def test_a_last_line_that_has_no_end_is_not_left_out(name, end):
    whole = text_of(columns()).encode() + b"A," + b"\0" * (33 << 20) + end.encode()
    write(name, gzip.compress(whole, compresslevel=1) if name.endswith(".gz") else whole)
    refused(f"^`{name}` cannot be read: its last line has more than 8 MB; a line may have 2 MB at most.$", name)


@pytest.mark.parametrize("first", ["x" * (3 << 20), "x" * (1 << 18) + ",outcome"])
def test_a_first_line_that_is_too_long_is_not_called_empty(first):
    write("a.csv.gz", gzip.compress(f"{first}\n{text_of(columns())}".encode(), compresslevel=1))
    refused("`a.csv.gz` cannot be read: its first line has a field of more than 128 KB, or more than 2 MB", "a.csv.gz")


def test_lines_that_nobody_can_read_are_not_brought_into_memory():
    whole = text_of(columns()).encode() + b"A," + b"1" * (64 << 20) + b",0.5,0.5\n" * (1 << 20)
    write("a.csv.gz", gzip.compress(whole, compresslevel=1))
    tracemalloc.start()
    try:
        refused("`a.csv.gz` cannot be read: .*line", "a.csv.gz")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
