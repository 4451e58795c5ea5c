from __future__ import annotations

import datetime as dt
import gzip
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from drawn import DRAWN, ROWS, Drawn, refused, same, write

import belated as bl
from belated.reading.csv_files import lacks_checksum

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


@pytest.mark.parametrize(
    "labels",
    [
        ("01", "02"), ("1", "B"), ("+1", "+2"), ("1", "2"), ("1.5", "2.5"), ("A", "NA"), ("1.1", "1.10", "1.2"),
        ("1", "1.0"), ("1.0", "1.00"), ("1.0", "2.0"), ("1000", "1e3"), ("0.1", "0.10"), ("1", "2.5"), ("-0", "0"),
        ("false", "true"), ("False", "True"), ("inf", "nan"), ("1", "99999999999999999999"), ("1000", "1_000"),
        ("-0.0", "0.0"), ("2026-01-01", "2026-02-01"), ("09:30", "18:00"), ("00:10:00", "01:00:00"), ("1d", "7d"),
    ],
)  # fmt: skip
def test_arms_of_a_csv_file_keep_their_names(labels):
    drawn = Drawn(labels)
    for name in ("p_{}", "{}_prob"):
        pa.csv.write_csv(drawn.table({f"p{k}": name.format(label) for k, label in enumerate(labels)}), "a.csv")
        source = bl.read("a.csv")
        assert tuple(map(str, source.arms)) == labels
    assert tuple(map(str, source.log().arms)) == labels
    same(source, drawn)
    same(bl.read("a.csv", arms=labels), drawn)


def test_labels_are_numbers_or_truths_only_where_all_are_written_so():
    kinds = {("1", "2"): int, ("1.5", "2.5"): float, ("1", "2.5"): str, ("True", "False"): bool, ("true", "false"): str}
    for labels, kind in kinds.items():
        drawn = Drawn(labels)
        pa.csv.write_csv(drawn.table({f"p{k}": f"p_{label}" for k, label in enumerate(labels)}), "a.csv")
        assert {type(arm) for arm in bl.read("a.csv").arms} == {kind}


def test_arms_given_as_numbers_are_found_among_labels_that_are_text():
    drawn = Drawn(("1", "2.5"))
    pa.csv.write_csv(drawn.table({"p0": "p_1", "p1": "p_2.5"}), "a.csv")
    assert same(bl.read("a.csv", arms=[2.5, 1]), drawn).arms == ("2.5", "1")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",", "\t"),
        lambda text: text.rstrip("\n"),
        lambda text: "\n\n" + text + "\n\n",
        lambda text: text.replace(",,", ",NA,").replace(",,", ",None,"),
        lambda text: text.replace(",,", ",NULL,").replace(",,", ",NaT,"),
        lambda text: text.replace("outcome", '"outcome"', 1),
    ],
)
def test_csv_in_any_dialect(change):
    same(bl.read(write("a.csv", change(DRAWN.csv()))))


WITH_OUTCOME, WITHOUT_OUTCOME = int(DRAWN.arrived[5]), int(np.flatnonzero(DRAWN.out)[0])


@pytest.mark.parametrize("text", ["abc", "1,000", "4,5", "$5", "5%", "True", "-"])
def test_what_is_no_number(text):
    write("a.csv", DRAWN.csv([(WITH_OUTCOME, "outcome", text)]))
    refused(f"line {WITH_OUTCOME + 2} has '{re.escape(text)}' in column 'outcome'; it must be a number", "a.csv")


@pytest.mark.parametrize(
    ("row", "column", "text", "words"),
    [
        (WITH_OUTCOME, "outcome", "NA", f"`outcome` in line {WITH_OUTCOME + 2} is nan although it has arrived"),
        (WITH_OUTCOME, "outcome", "NaN", f"`outcome` in line {WITH_OUTCOME + 2} is nan although it has arrived"),
        (WITH_OUTCOME, "outcome", "inf", f"`outcome` in line {WITH_OUTCOME + 2} is inf"),
        (WITHOUT_OUTCOME, "outcome", "Infinity", f"`outcome` in line {WITHOUT_OUTCOME + 2} is inf"),
        (WITHOUT_OUTCOME, "outcome", "3", f"`outcome` in line {WITHOUT_OUTCOME + 2} is 3.0 but has no arrival"),
        (WITH_OUTCOME, "assigned_at", "", f"`assigned_at` in line {WITH_OUTCOME + 2} is missing"),
        (WITH_OUTCOME, "assigned_at", "nan", f"`assigned_at` in line {WITH_OUTCOME + 2} is missing"),
        (WITH_OUTCOME, "assigned_at", "inf", f"`assigned_at` in line {WITH_OUTCOME + 2} is inf"),
        (WITH_OUTCOME, "assigned_at", "abc", f"line {WITH_OUTCOME + 2} has 'abc' in column 'assigned_at'"),
        (WITH_OUTCOME, "arrived_at", "abc", f"line {WITH_OUTCOME + 2} has 'abc' in column 'arrived_at'"),
        (WITH_OUTCOME, "arrived_at", "", f"`outcome` in line {WITH_OUTCOME + 2} is .* but has no arrival"),
        (WITH_OUTCOME, "arrived_at", "-5", f"`arrived_at` in line {WITH_OUTCOME + 2} is -5, before its assignment"),
        (WITH_OUTCOME, "p_A", "", f"`propensity` in line {WITH_OUTCOME + 2} for arm 'A' is nan"),
        (WITH_OUTCOME, "p_A", "-0.5", f"`propensity` in line {WITH_OUTCOME + 2} for arm 'A' is -0.5"),
        (WITH_OUTCOME, "p_A", "0.99999", f"`propensity` in line {WITH_OUTCOME + 2} sums to"),
        (WITH_OUTCOME, "arm", "", f"`arm` in line {WITH_OUTCOME + 2} is missing; every row needs an arm"),
        (WITH_OUTCOME, "p_B", "0.5,9", f"line {WITH_OUTCOME + 2} has 7 fields, but the first line has 6"),
    ],
)
def test_one_bad_field(row, column, text, words):
    if text == "0.5,9":
        lines = DRAWN.csv().split("\n")
        lines[row + 1] += ",9"
        write("a.csv", "\n".join(lines))
    else:
        write("a.csv", DRAWN.csv([(row, column, text)]))
    refused(words, "a.csv")


def test_files_that_are_no_csv():
    refused("not text in UTF-8", write("a.csv", DRAWN.csv([(WITH_OUTCOME, "arm", "é")]), "latin-1"))
    lines = DRAWN.csv().split("\n")
    refused("its first line seems to hold values", write("a.csv", "\n".join(lines[1:])))
    refused("a quotation mark is not closed", write("a.csv", DRAWN.csv().replace("\nA,", '\n"A,', 1)))
    refused("use `decimal=','`", write("a.csv", DRAWN.csv().replace(",", ";").replace(".", ",")))
    refused("Maximum line size", write("a.csv", DRAWN.csv([(WITH_OUTCOME, "arm", "A" * 3_000_000)])))


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"])
def test_dates_as_people_write_them(form):
    start = dt.date(2026, 1, 1)
    days = {"assigned_at": DRAWN.t, "arrived_at": DRAWN.t + DRAWN.delay}
    texts = {name: [(start + dt.timedelta(int(d))).strftime(form) for d in values] for name, values in days.items()}
    texts["arrived_at"] = [None if out else text for text, out in zip(texts["arrived_at"], DRAWN.out, strict=True)]
    same(bl.read(write("a.csv", DRAWN.csv(**{name: pa.array(values) for name, values in texts.items()}))))


def test_dates_that_can_be_read_in_two_ways():
    months = [f"{1 + i % 12:02}/{1 + i // 12:02}/2026" for i in range(ROWS)]
    write("a.csv", DRAWN.csv(assigned_at=pa.array(months)).replace("arrived_at", "note", 1))
    refused("dates such as '01/01/2026', which can be read in two ways", "a.csv", delay="")


def flipped(packed, name, flips):
    """Read a file with one bit flipped, each time another; return how often the answer was the same."""
    rng, right = np.random.default_rng(4), 0
    wanted = bl.estimate(bl.read(write(name, packed)))
    for _ in range(flips):
        damaged, bit = bytearray(packed), int(rng.integers(8 * len(packed)))
        damaged[bit // 8] ^= 1 << (bit % 8)
        write(name, bytes(damaged))
        try:
            got = bl.estimate(bl.read(name))
        except bl.BelatedError:
            continue
        assert got.values.tolist() == wanted.values.tolist()
        right += 1
    return right


def test_a_damaged_gzip_file_never_gives_another_answer():
    packed = gzip.compress(DRAWN.csv().encode(), mtime=0)
    assert flipped(packed, "a.csv.gz", 20) < 4  # bits of the header that mean nothing
    for end in range(1, len(packed), 150):
        refused("not a GZIP file, or it is incomplete or damaged", write("b.csv.gz", packed[:end]))
    content = DRAWN.csv().encode()
    same(bl.read(write("A.CSV.GZ", gzip.compress(content[:1000]) + gzip.compress(content[1000:]))))


def test_a_zstd_file_without_a_checksum_is_noted():
    note = "`a.csv.zst` was compressed without a checksum: damage to it may go unnoticed. `zstd --check` adds one."
    with pa.output_stream("a.csv.zst", compression="zstd") as file:
        file.write(DRAWN.csv().encode())
    source = bl.read("a.csv.zst")
    same(source)
    assert note in source.notes
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert lacks_checksum(write("b.csv.zst", skipped + Path("a.csv.zst").read_bytes()))
    changed = bytearray(Path("a.csv.zst").read_bytes())
    changed[4] |= 0x04
    assert not lacks_checksum(write("c.csv.zst", bytes(changed)))
    assert not lacks_checksum(write("d.csv.zst", b""))


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no `zstd` to pack with")
def test_a_damaged_zstd_file_never_gives_another_answer():
    write("a.csv", DRAWN.csv())
    subprocess.run([str(shutil.which("zstd")), "-q", "a.csv"], check=True)
    packed = Path("a.csv.zst").read_bytes()
    same(bl.read("a.csv.zst"))
    assert flipped(packed, "b.csv.zst", 15) < 3
    for end in range(1, len(packed), 150):
        refused("not a ZSTD file, or it is incomplete or damaged", write("b.csv.zst", packed[:end]))


def late(rows, **columns):
    """Return a longer experiment, in which only the last rows show what the columns hold."""
    arm = np.array(["A", "B"])[np.arange(rows) % 2]
    step = np.arange(1, rows + 1)
    plain = {"arm": arm, "outcome": step % 3, "assigned_at": step, "arrived_at": step + 3, "p_A": np.full(rows, 0.5),
             "p_B": np.full(rows, 0.5)}  # fmt: skip
    table = pa.table({**plain, **columns})
    pa.csv.write_csv(table, "late.csv")
    return table


def test_columns_that_are_empty_for_long():
    rows = 31_000
    out = np.arange(rows) < 30_000
    outcome = pa.array(np.arange(rows) % 3 + 0.5, mask=out)
    table = late(rows, outcome=outcome, arrived_at=pa.array(np.arange(rows) + 4, mask=out))
    for column in ("arrived_at", "delay"):
        if column == "delay":
            table = late(rows, outcome=outcome, arrived_at=pa.array(np.full(rows, 3), mask=out))
            table = table.rename_columns([column if name == "arrived_at" else name for name in table.column_names])
            pa.csv.write_csv(table, "late.csv")
        log = bl.Log(
            table["arm"].to_pylist(), outcome.to_numpy(zero_copy_only=False), np.full((rows, 2), 0.5),
            assigned_at=np.arange(1, rows + 1), arrived_at=np.where(out, np.nan, np.arange(rows) + 4.0),
        )  # fmt: skip
        assert bl.estimate(bl.read("late.csv")).values == pytest.approx(bl.estimate(log).values, rel=1e-9)


def test_rows_of_a_long_file_stay_in_order():
    rows = 300_000
    table = late(rows, outcome=np.arange(float(rows))).drop_columns(["assigned_at", "arrived_at"])
    pa.csv.write_csv(table, "late.csv")  # without times, the order of the rows is that of assignment
    for _ in range(2):
        np.testing.assert_array_equal(bl.read("late.csv").log().outcome, np.arange(float(rows)))


def test_what_only_a_late_line_shows():
    rows, bad = 130_000, 129_000
    late(rows)
    lines = Path("late.csv").read_text().split("\n")
    good = lines[bad + 1]

    def changed(line):
        lines[bad + 1] = line
        return write("late.csv", "\n".join(lines))

    fields = good.split(",")
    refused(f"line {bad + 2:,} has 'x' in column 'outcome'", changed(",".join([fields[0], "x", *fields[2:]])))
    refused(f"line {bad + 2:,} is not like the others", changed(good + ",9"))
    refused(f"`assigned_at` in line {bad + 2:,} is missing", changed(",".join([*fields[:2], "", *fields[3:]])))
    refused(f"`propensity` in line {bad + 2:,} sums to 1.4", changed(",".join([*fields[:4], "0.9", "0.5"])))
    half = changed(",".join([fields[0], "1.5", f"{fields[2]}.5", *fields[3:]]))
    assert bl.estimate(bl.read(half)).values == pytest.approx([1.0, 1.0], abs=1e-3)
    quoted = changed('"A, or\nso",' + ",".join(fields[1:]))
    assert bl.read(quoted, propensity="p_A").arms == ("A", "A, or\nso", "B")


HEAD = "arm,outcome,p_A,p_B,assigned_at,arrived_at\n\nA,1,0.5,0.5,{first},9\n"


@pytest.mark.parametrize("first", [1, 7])  # in order of assignment, and not
@pytest.mark.parametrize("as_of", [None, 8])
@pytest.mark.parametrize(
    ("row", "what"),
    [("B,0,0.6,0.5,5,9", "sums to 1.1"), ("B,inf,0.5,0.5,5,6", "is inf"), ("B,0,0.5,0.5,5,4", "before its assignment")],
)
def test_errors_name_the_line(tmp_path, row, what, first, as_of):
    path = tmp_path / "log.csv"
    later = "" if as_of is None else "A,1,0.5,0.5,9,9\n"
    path.write_text(HEAD.format(first=first) + later + row + "\n")
    line = 4 if as_of is None else 5
    for ask in (bl.estimate, bl.diagnose):
        with pytest.raises(bl.LogError, match=f"in line {line} .*{what}"):
            ask(bl.read(path, as_of=as_of))


def test_an_impossible_chance_of_arrival_names_its_line(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("arm,outcome,p_A,p_B,q\nA,1,0.5,0.5,1\nB,0,0.5,0.5,2\n")
    with pytest.raises(bl.LogError, match=r"in line 3 is 2\.0"):
        bl.read(path, arrival_probability="q")
