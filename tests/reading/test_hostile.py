"""What people's files hold: every oddity is read as the plain one is, or refused in one sentence."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
from decimal import Decimal
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import belated as bl
from belated.cli.app import app
from belated.reading.sentences import sentences
from belated.reports.analysis import Questions, analyse
from belated.reports.rendering import write_report

pytestmark = pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning")

ROWS = 60
NAMES = (
    "quo'te", 'dou"ble', "back\\slash", "<script>window.pwned=1</script>", "x'; DROP TABLE t; --", "new\nline",
    "car\rriage", "crlf\r\nx", "tab\tbed", "nul\0x", "\U0001f389", "שלום", "\u202eright", "x" * 10_000, " lead",
    "trail ", "arm", "ARM", "é", "e\u0301", "None", "NA", "nan", "null", "01", "1.0", "{{7*7}}", "\x1b[31m",
    "](javascript:alert(1))", "</td><img src=x onerror=alert(1)>",
)  # fmt: skip
#: Names that columns have inside, and words of SQL.
INSIDE = (
    "code", "outcome", "assigned", "arrived", "key", "key_", "when", "delay", "conflict", "total", "p", "p0", "k",
    "own", "pi", "about", "seen", "turn", "moment", "mean", "n", "select", "from", "order", "rowid", "*", "a.b",
)  # fmt: skip


class Drawn:
    """An experiment as columns, and as the `Log` that every way of reading them must agree with."""

    def __init__(self, labels=("A", "B"), rows=ROWS):
        rng = np.random.default_rng(7)
        k = len(labels)
        self.labels = labels
        self.p = 0.7 * rng.dirichlet(np.ones(k), rows) + 0.3 / k
        self.p /= self.p.sum(axis=1, keepdims=True)
        self.code = np.array([rng.choice(k, p=p) for p in self.p])
        self.code[:k] = np.arange(k)
        self.t, self.delay = np.arange(1, rows + 1), rng.integers(0, 9, rows)
        self.out = rng.random(rows) < 0.2
        self.y = rng.normal(5 + 0.3 * self.code, 1)
        self.here = np.flatnonzero(~self.out)

    def table(self, names=None, **columns):
        columns = {
            "arm": pa.array([self.labels[k] for k in self.code]),
            "outcome": pa.array(self.y, mask=self.out),
            "assigned_at": pa.array(self.t),
            "arrived_at": pa.array(self.t + self.delay, mask=self.out),
            **{f"p{k}": pa.array(self.p[:, k]) for k in range(len(self.labels))},
            **columns,
        }
        return pa.table({(names or {}).get(name, name): column for name, column in columns.items()})

    def wide(self, **columns):
        return self.table({"p0": "p_A", "p1": "p_B"}, **columns)

    def log(self):
        return bl.Log(
            [self.labels[k] for k in self.code], np.where(self.out, np.nan, self.y), self.p, arms=list(self.labels),
            assigned_at=self.t, arrived_at=np.where(self.out, np.nan, self.t + self.delay),
        )  # fmt: skip

    @cached_property
    def answers(self):
        return bl.estimate(self.log())

    def csv(self, change=(), **columns):
        """Return the lines of a CSV file, with `change`: (row, column, text)."""
        table = self.wide(**columns)
        rows = [["" if x is None else str(x) for x in row.values()] for row in table.to_pylist()]
        for row, column, text in change:
            rows[row][table.column_names.index(column)] = text
        file = io.StringIO(newline="")
        csv.writer(file, lineterminator="\n").writerows([table.column_names, *rows])
        return file.getvalue()


DRAWN = Drawn()


def same(source, drawn=DRAWN):
    got, wanted = bl.estimate(source), drawn.answers
    order = [list(map(str, got.arms)).index(str(arm)) for arm in wanted.arms]
    assert got.values[order] == pytest.approx(wanted.values, rel=1e-9)
    assert got.std_errors[order] == pytest.approx(wanted.std_errors, rel=1e-9)
    return got


def refused(match, *args, kind=bl.BelatedError, **options):
    with pytest.raises(kind, match=match) as caught:
        bl.estimate(bl.read(*args, **options))
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1_000
    assert str(Path.cwd()) not in text
    return caught.value


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """Work in an empty folder whose temporary folder is empty again at the end."""
    spill = tmp_path / "spill"
    spill.mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(spill))
    yield
    assert not list(spill.iterdir())
    assert not [name for name in os.listdir() if name.startswith(".") or name.endswith((".wal", ".tmp"))]


def write(name, content, encoding="utf-8"):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return name


def database(name, table, *statements):
    with duckdb.connect(name) as connection:
        connection.register("given", table)
        for statement in statements or ("CREATE TABLE t AS SELECT * FROM given",):
            connection.execute(statement)
    return name


# ---------------------------------------------------------------- names of arms


def named(drawn):
    return {label: f"p{k}" for k, label in enumerate(drawn.labels)}


@pytest.mark.parametrize("form", ["parquet", "feather", "csv", "duckdb", "pandas", "polars", "arrow"])
def test_arms_of_any_name(form):
    labels = tuple(name for name in NAMES if form != "csv" or "\r" not in name)
    drawn = Drawn(labels, rows=200)
    table = drawn.table()
    if form == "parquet":
        pa.parquet.write_table(table, "a.parquet")
    elif form == "feather":
        pa.feather.write_feather(table, "a.feather")
    elif form == "csv":
        pa.csv.write_csv(table, "a.csv")
    elif form == "duckdb":
        database("a.duckdb", table)
    frames = {"pandas": pa.Table.to_pandas, "polars": pl.from_arrow, "arrow": lambda t: t}
    source = bl.read(frames[form](table) if form in frames else f"a.{form}", propensity=named(drawn))
    assert source.arms == labels
    same(source, drawn)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.bad = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "img", "iframe") or any(name.startswith("on") for name, _ in attrs):
            self.bad.append(tag)


def test_no_name_escapes_from_any_output():
    drawn = Drawn(NAMES, rows=200)
    found = analyse(bl.read(drawn.table(), propensity=named(drawn)), Questions(policies=({NAMES[0]: 1.0},)))
    arms = json.loads(found.to_json())["answers"][0]["arms"]
    assert [arm["arm"] for arm in arms] == list(NAMES)
    rows = csv.DictReader(io.StringIO(found.to_csv(), newline=""))
    assert [row["question"] for row in rows if row["kind"] == "arm"] == list(NAMES)
    text, markdown = found.to_text(), found.to_markdown()
    assert not re.search("[\0\x1b\u202e\r]", text + markdown)
    assert not re.search(r"(?<!\\)<script", markdown)
    assert not re.search(r"(?<!\\)\]\(java", markdown)
    write_report(found, "r.html", title=NAMES[3], command=f"belated {NAMES[3]}")
    tags = Tags()
    tags.feed(Path("r.html").read_text(encoding="utf-8"))
    assert not tags.bad


@pytest.mark.parametrize(
    "labels",
    [(1, 2), (-1, -2), (0.5, 1.5), (True, False), (Decimal("1.5"), Decimal("2.5")), ("A", "a")],
)
def test_arms_of_any_type(labels):
    drawn = Drawn(labels)
    same(bl.read(drawn.table(), propensity=named(drawn)), drawn)


@pytest.mark.parametrize("labels", [("01", "02"), ("1", "B"), ("+1", "+2"), ("1", "2"), ("1.5", "2.5"), ("A", "NA")])
def test_arms_of_a_csv_file_keep_their_names(labels):
    drawn = Drawn(labels)
    pa.csv.write_csv(drawn.table({f"p{k}": f"p_{label}" for k, label in enumerate(labels)}), "a.csv")
    source = bl.read("a.csv")
    assert tuple(map(str, source.arms)) == labels
    same(source, drawn)


@pytest.mark.parametrize("arm", [None, "missing"])
def test_an_arm_that_is_missing(arm):
    labels = [None if i == 9 else "AB"[k] for i, k in enumerate(DRAWN.code)]
    frame = DRAWN.wide(arm=pa.array(labels, pa.string()))
    refused("`arm` is missing in 1 row", frame if arm is None else frame.to_pandas())


def test_dates_and_bytes_are_no_arms():
    for labels in ((dt.date(2026, 1, 1), dt.date(2026, 1, 2)), (b"a", b"b")):
        refused("'arm' is of kind", Drawn(labels).table(), propensity="p0")


def test_text_that_is_not_text():
    frame = DRAWN.wide().to_pandas()
    frame["arm"] = frame["arm"].astype(object).replace("A", "\ud83d")
    refused("is not text", frame, propensity={"\ud83d": "p_A", "B": "p_B"})


# ---------------------------------------------------------------- names of columns


def chosen(name):
    return {
        "arm": name("arm"), "outcome": name("outcome"), "assigned_at": name("assigned_at"),
        "arrived_at": name("arrived_at"), "propensity": {"A": name("p0"), "B": name("p1")},
    }  # fmt: skip


def test_columns_of_any_name():
    roles = ["arm", "outcome", "assigned_at", "arrived_at", "p0", "p1"]
    hostile = [name for name in (*NAMES, *INSIDE) if "\0" not in name]
    for start in range(0, len(hostile), 5):
        some = [*hostile[start : start + 5], "spare", "more", "yet more"][: len(roles) - 1]
        if len({name.lower() for name in some}) < len(some):
            some = [f"{i}{name}" for i, name in enumerate(some)]
        names = dict(zip(roles[start % 2 :], some, strict=False))
        given = chosen(lambda role: names.get(role, f"plain {role}"))  # noqa: B023
        table = DRAWN.table({role: names.get(role, f"plain {role}") for role in roles})
        same(bl.read(table, **given))


@pytest.mark.parametrize("key", ["key_", "when", "outcome", 'a"; DROP TABLE t; --', "x" * 10_000, "new\nline"])
def test_columns_of_any_name_in_two_tables(key):
    table = DRAWN.table()
    ids = pa.array(range(ROWS))
    made = table.select(["arm", "assigned_at", "p0", "p1"]).rename_columns(["code", "total", "arrived", "p"])
    came = table.select(["outcome", "arrived_at"]).rename_columns(["conflict", "assigned"])
    came = came.append_column(key, ids).filter(pc.is_valid(table["outcome"]))
    same(
        bl.read(
            made.append_column(key, ids), came, key=(key, key), arm="code", assigned_at="total", outcome="conflict",
            arrived_at="assigned", propensity={"A": "arrived", "B": "p"},
        )
    )  # fmt: skip


def test_roles_may_have_each_others_names():
    swapped = {"arm": "outcome", "outcome": "arm", "assigned_at": "arrived", "arrived_at": "assigned", "p0": "p1",
               "p1": "p0"}  # fmt: skip
    same(bl.read(DRAWN.table(swapped), **chosen(swapped.get)))


def test_names_that_come_twice():
    table = DRAWN.wide()
    twice = pa.table([*table.columns, table["arm"]], names=[*table.column_names, "arm"])
    refused("several columns named 'arm'", twice)
    frame = table.to_pandas()
    frame.insert(1, "arm", "q", allow_duplicates=True)
    refused("several columns named 'arm'", frame)
    write("a.csv", DRAWN.csv().replace("arrived_at", "outcome", 1))
    refused("`a.csv` has several columns named 'outcome'", "a.csv")
    write("a.csv", DRAWN.csv().replace("arrived_at", "out\0come", 1))
    refused("cannot have that character", "a.csv")


# ---------------------------------------------------------------- files and folders


@pytest.mark.parametrize("name", ["quo'te; sp ace", "g*b", "h[a]b", "~pct%20\U0001f389"])
def test_files_of_any_name(name):
    table = DRAWN.wide()
    for sibling in ("gxb", "qxm", "hab"):  # what the name would find as a glob
        pa.parquet.write_table(table.slice(0, 20), f"{sibling}.parquet")
        pa.csv.write_csv(table.slice(0, 20), f"{sibling}.csv")
    pa.parquet.write_table(table, f"{name}.parquet")
    pa.csv.write_csv(table, f"{name}.csv")
    pa.feather.write_feather(table, f"{name}.feather")
    database(os.path.abspath(f"{name}.duckdb"), table)
    Path(f"folder {name}").mkdir()
    pa.parquet.write_table(table.slice(0, 30), f"folder {name}/a.parquet")
    pa.parquet.write_table(table.slice(30), f"folder {name}/b.parquet")
    for path in (f"{name}.parquet", f"{name}.csv", f"{name}.feather", f"{name}.duckdb", f"folder {name}"):
        same(bl.read(path))


def folder(*parts, name="parts", form="parquet"):
    for i, part in enumerate(parts):
        Path(name).mkdir(exist_ok=True)
        writer = pa.parquet.write_table if form == "parquet" else pa.feather.write_feather
        writer(part, f"{name}/{i}.{form}")
    return name


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_parts_that_differ(form):
    table = DRAWN.wide()
    first, second = table.slice(0, 30), table.slice(30)
    same(bl.read(folder(first, second.select(table.column_names[::-1]), form=form)))
    same(bl.read(f"parts/[0-1].{form}"))
    narrow = first.set_column(2, "assigned_at", first["assigned_at"].cast("int8"))
    late = pc.add(second["assigned_at"], 1000), pc.add(second["arrived_at"], 1000)
    wide = second.set_column(2, "assigned_at", late[0]).set_column(3, "arrived_at", late[1])
    assert len(bl.read(folder(narrow, wide, form=form))) == ROWS
    refused("`propensity` in row 30 for arm 'B' is nan", folder(first, second.drop(["p_B"]), form=form))
    refused("has no arrival", folder(first.drop(["arrived_at"]), second, form=form))


def test_folders_named_by_values_and_hidden_ones():
    table = DRAWN.wide()
    for arm in "AB":
        Path(f"hive/g={arm}").mkdir(parents=True)
        pa.parquet.write_table(table.filter(pc.equal(table["arm"], arm)).drop(["arm"]), f"hive/g={arm}/x.parquet")
    same(bl.read("hive", arm="g"))
    same(bl.read("hive/*/*.parquet", arm="g"))
    Path("outcome=5").mkdir()
    pa.parquet.write_table(table, "outcome=5/x.parquet")
    same(bl.read("outcome=5/x.parquet"))
    same(bl.read("outcome=5"))
    Path("x.parquet/_temporary/0").mkdir(parents=True)
    for name in ("part.parquet", ".part.parquet", "_temporary/0/part.parquet"):
        pa.parquet.write_table(table, f"x.parquet/{name}")
    same(bl.read("x.parquet"))
    os.symlink("x.parquet/part.parquet", "link.parquet")
    same(bl.read("link.parquet"))


def test_what_is_not_there():
    Path("empty").mkdir()
    Path("d.duckdb").mkdir()
    os.symlink("nowhere.csv", "dangling.csv")
    for path in ("empty", "d.duckdb"):
        refused("holds no Parquet, Arrow or CSV file", path)
    for path in ("", "nothing.csv", "dangling.csv", "s3://bucket/x.parquet", "a\0b.csv", "x" * 5000 + ".csv"):
        refused("There is no file", path)
    refused("No file matches", "*.parquet")
    refused("must end in one of", write("noext", "x"))
    for odd in (5, None, {"a": [1]}, [1], b"a.csv"):
        refused("it must be a path, a dataframe or an Ibis table", odd)
    write(b"\xff.csv".decode("utf-8", "surrogateescape"), DRAWN.csv())
    refused("is not text in UTF-8", "\udcff.csv")


def test_files_that_are_not_what_they_are_named():
    pa.parquet.write_table(DRAWN.wide(), "a.parquet")
    pa.feather.write_feather(DRAWN.wide(), "a.feather")
    whole, arrow = Path("a.parquet").read_bytes(), Path("a.feather").read_bytes()
    packed = gzip.compress(DRAWN.csv().encode())
    noise = np.random.default_rng(1).bytes(2000)
    told = {"parquet": "not a Parquet file", "feather": "not an Arrow file", "duckdb": "not a DuckDB database",
            "csv.gz": "not a GZIP file", "csv": "not text in UTF-8"}  # fmt: skip
    for form, words in told.items():
        for content in (b"", b"hello, you\n" * 30, noise, whole, whole[:700], arrow[:1500], packed[:900]):
            is_text = content in (b"", b"hello, you\n" * 30)
            if not (form == "csv" and is_text) and not (form == "parquet" and content == whole):
                refused(words, write(f"x.{form}", content))
    broken = bytearray(arrow)
    broken[300:900] = b"\xff" * 600
    refused("not an Arrow file", write("b.feather", bytes(broken)))
    same(bl.read(write("ok.csv.gz", packed)))


def test_tables_without_rows():
    none = DRAWN.wide().slice(0, 0)
    pa.parquet.write_table(none, "a.parquet")
    pa.csv.write_csv(none, "a.csv")
    for source in ("a.parquet", "a.csv", none, none.to_pandas(), write("b.csv", "")):
        refused("has no rows", source)
    made = DRAWN.wide().drop(["outcome", "arrived_at"]).append_column("id", pa.array(range(ROWS)))
    pa.csv.write_csv(made, "made.csv")
    write("came.csv", "id,outcome,arrived_at\n")
    assert np.isnan(bl.estimate(bl.read("made.csv", "came.csv")).values).all()


def test_databases():
    hostile = "ta\"b'le; --"
    same(bl.read(database("one.duckdb", DRAWN.wide())))
    database(
        "many.duckdb", DRAWN.wide(), "CREATE TABLE t AS SELECT * FROM given", "CREATE VIEW v AS SELECT * FROM t",
        "CREATE SCHEMA \"s 'x\"", 'CREATE TABLE "s \'x"."ta""b\'le; --" AS SELECT * FROM given',
    )  # fmt: skip
    same(bl.read("many.duckdb", table="v"))
    same(bl.read("many.duckdb", table=hostile))
    refused("holds 3 tables", "many.duckdb")
    refused("Did you mean 't'", "many.duckdb", table="tt")
    refused("holds 0 tables", database("none.duckdb", DRAWN.wide(), "SELECT 1"))
    refused("is not a database", write("a.csv", DRAWN.csv()), table="t")
    database("two.duckdb", DRAWN.wide(), "CREATE TABLE t AS SELECT * FROM given LIMIT 9", "CREATE SCHEMA s",
             "CREATE TABLE s.t AS SELECT * FROM given")  # fmt: skip
    refused("must be one of 'main.t', 's.t'", "two.duckdb", table="t")
    same(bl.read("two.duckdb", table="s.t"))
    database("view.duckdb", DRAWN.wide(), "CREATE TABLE x AS SELECT 1 AS a", "CREATE VIEW v AS SELECT * FROM x",
             "DROP TABLE x")  # fmt: skip
    refused("a view of what is not there", "view.duckdb")
    write("cut.duckdb", Path("one.duckdb").read_bytes()[:5000])
    refused("`cut.duckdb` cannot be read", "cut.duckdb")
    holder = [sys.executable, "-c", "import duckdb; c = duckdb.connect('one.duckdb'); print(1, flush=True); input()"]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        refused("another program has it open", "one.duckdb")
        other.communicate(b"\n")


# ---------------------------------------------------------------- CSV


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


HERE, GONE = int(DRAWN.here[5]), int(np.flatnonzero(DRAWN.out)[0])


@pytest.mark.parametrize("text", ["abc", "n/a", "1,000", "4,5", "$5", "5%", "True", "-"])
def test_what_is_no_number(text):
    write("a.csv", DRAWN.csv([(HERE, "outcome", text)]))
    refused(f"line {HERE + 2} has '{re.escape(text)}' in column 'outcome', where a number must be", "a.csv")


@pytest.mark.parametrize(
    ("row", "column", "text", "words"),
    [
        (HERE, "outcome", "NA", f"`outcome` in row {HERE} is nan although it has arrived"),
        (HERE, "outcome", "NaN", f"`outcome` in row {HERE} is nan although it has arrived"),
        (HERE, "outcome", "inf", f"`outcome` in row {HERE} is inf"),
        (GONE, "outcome", "Infinity", f"`outcome` in row {GONE} is inf"),
        (GONE, "outcome", "3", f"`outcome` in row {GONE} is 3.0 but has no arrival"),
        (HERE, "assigned_at", "", f"`assigned_at` in row {HERE} is missing"),
        (HERE, "assigned_at", "nan", f"`assigned_at` in row {HERE} is missing"),
        (HERE, "assigned_at", "inf", f"`assigned_at` in row {HERE} is inf"),
        (HERE, "assigned_at", "abc", f"line {HERE + 2} has 'abc' in column 'assigned_at'"),
        (HERE, "arrived_at", "abc", f"line {HERE + 2} has 'abc' in column 'arrived_at'"),
        (HERE, "arrived_at", "", f"`outcome` in row {HERE} is .* but has no arrival"),
        (HERE, "arrived_at", "-5", f"`arrived_at` in row {HERE} is -5, before its assignment"),
        (HERE, "p_A", "", f"`propensity` in row {HERE} for arm 'A' is nan"),
        (HERE, "p_A", "-0.5", f"`propensity` in row {HERE} for arm 'A' is -0.5"),
        (HERE, "p_A", "0.99999", f"`propensity` in row {HERE} sums to"),
        (HERE, "arm", "", "`arm` is missing in 1 row"),
        (HERE, "p_B", "0.5,9", f"line {HERE + 2} has 7 fields, but the first line has 6"),
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
    refused("not text in UTF-8", write("a.csv", DRAWN.csv(), "utf-16"))
    refused("not text in UTF-8", write("a.csv", DRAWN.csv([(HERE, "arm", "é")]), "latin-1"))
    lines = DRAWN.csv().split("\n")
    refused("No column is named like an arm", write("a.csv", "\n".join(lines[1:])))
    refused("a quotation mark is not closed", write("a.csv", DRAWN.csv().replace("\nA,", '\n"A,', 1)))
    refused("where a number must be", write("a.csv", DRAWN.csv().replace(",", ";").replace(".", ",")))
    refused("Maximum line size", write("a.csv", DRAWN.csv([(HERE, "arm", "A" * 3_000_000)])))


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


def test_what_only_a_late_line_shows():
    rows, bad = 600_000, 599_000
    late(rows)
    lines = Path("late.csv").read_text().split("\n")
    good = lines[bad + 1]

    def changed(line):
        lines[bad + 1] = line
        return write("late.csv", "\n".join(lines))

    fields = good.split(",")
    refused(f"line {bad + 2:,} has 'x' in column 'outcome'", changed(",".join([fields[0], "x", *fields[2:]])))
    refused(f"line {bad + 2:,} is not like the others", changed(good + ",9"))
    refused(f"`assigned_at` in row {bad} is missing", changed(",".join([*fields[:2], "", *fields[3:]])))
    refused(f"`propensity` in row {bad} sums to 1.4", changed(",".join([*fields[:4], "0.9", "0.5"])))
    half = changed(",".join([fields[0], "1.5", f"{fields[2]}.5", *fields[3:]]))
    assert bl.estimate(bl.read(half)).values == pytest.approx([1.0, 1.0], abs=1e-3)
    quoted = changed('"A, or\nso",' + ",".join(fields[1:]))
    assert bl.read(quoted, propensity="p_A").arms == ("A", "A, or\nso", "B")


# ---------------------------------------------------------------- types


def at(values, start=dt.datetime(2026, 1, 1), unit="us", zone=None):
    made = [None if v is None else start + dt.timedelta(hours=int(v)) for v in values]
    return pa.array(made, pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))


CAME = [None if out else int(t + d) for t, d, out in zip(DRAWN.t, DRAWN.delay, DRAWN.out, strict=True)]


@pytest.mark.parametrize(
    ("made", "came"),
    [
        ({"unit": "ns"}, {"unit": "ns"}),
        ({"unit": "s"}, {"unit": "ms"}),
        ({"unit": "ns", "zone": "Asia/Tokyo"}, {"unit": "ns", "zone": "Asia/Tokyo"}),
        ({"zone": "America/New_York"}, {"zone": "Europe/Berlin"}),
        ({"zone": "UTC"}, {}),
        ({}, {"zone": "UTC"}),
        ({"start": dt.datetime(1890, 1, 1)}, {"start": dt.datetime(1890, 1, 1)}),
        ({"start": dt.datetime(2300, 1, 1)}, {"start": dt.datetime(2300, 1, 1)}),
    ],
)
def test_times_of_any_kind(made, came):
    table = DRAWN.wide(assigned_at=at(DRAWN.t, **made), arrived_at=at(CAME, **came))
    same(bl.read(table.to_pandas()))
    pa.parquet.write_table(table, "a.parquet")
    same(bl.read("a.parquet"))


def test_times_as_text_dates_and_durations():
    made, came = at(DRAWN.t).to_pylist(), at(CAME).to_pylist()
    zones = [dt.timezone(dt.timedelta(hours=h)) for h in (2, -5, 0)]
    texts = [t.replace(tzinfo=dt.UTC).astimezone(zones[i % 3]).isoformat() for i, t in enumerate(made)]
    text = DRAWN.wide(assigned_at=pa.array(texts), arrived_at=pa.array([t and f"{t.isoformat()}Z" for t in came]))
    same(bl.read(text))
    pa.csv.write_csv(text, "a.csv")
    same(bl.read("a.csv"))
    days = [None if c is None else dt.date(2026, 1, 1) + dt.timedelta(c) for c in CAME]
    dates = DRAWN.wide(assigned_at=pa.array([dt.date(2026, 1, 1) + dt.timedelta(int(t)) for t in DRAWN.t]),
                       arrived_at=pa.array(days))  # fmt: skip
    same(bl.read(dates))
    waits = [None if out else dt.timedelta(hours=int(d)) for d, out in zip(DRAWN.delay, DRAWN.out, strict=True)]
    for unit in ("s", "ns"):
        delay = pa.array(waits, pa.duration("us")).cast(pa.duration(unit))
        same(bl.read(DRAWN.wide(assigned_at=at(DRAWN.t)).drop(["arrived_at"]).append_column("delay", delay)))


def test_numbers_of_any_type():
    wide, arms = DRAWN.wide(), pa.array(["AB"[k] for k in DRAWN.code])
    same(bl.read(DRAWN.wide(arm=arms.dictionary_encode())))
    same(bl.read(wide.to_pandas().astype({"arm": "category"})))
    same(bl.read(pl.from_arrow(wide).with_columns(pl.col("arm").cast(pl.Enum(["B", "A"])))))
    for dtype in ("int8", "uint64", pa.decimal128(20, 0)):
        times = {name: wide[name].cast(dtype) for name in ("assigned_at", "arrived_at")}
        same(bl.read(DRAWN.wide(**times)))
    single = DRAWN.table(p0=pa.array(DRAWN.p[:, 0], pa.float32()), p1=pa.array(DRAWN.p[:, 1], pa.float32()))
    got = bl.estimate(bl.read(single, propensity={"A": "p0", "B": "p1"}))
    assert got.values == pytest.approx(DRAWN.answers.values, rel=1e-6)
    bits = bl.estimate(bl.read(DRAWN.wide(outcome=pa.array(DRAWN.y > 5, mask=DRAWN.out)))).values
    ones = bl.estimate(bl.read(DRAWN.wide(outcome=pa.array((DRAWN.y > 5).astype(float), mask=DRAWN.out)))).values
    assert bits == pytest.approx(ones, rel=1e-12)
    empty = bl.read(DRAWN.wide(outcome=pa.nulls(ROWS), arrived_at=pa.nulls(ROWS)))
    assert np.isnan(bl.estimate(empty).values).all()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"arrived_at": at(CAME)}, "'arrived_at' is named like `arrived_at`, but is of kind time"),
        ({"assigned_at": at(DRAWN.t)}, "'arrived_at' is named like `arrived_at`, but is of kind integer"),
        ({"assigned_at": pa.nulls(ROWS)}, "'assigned_at' is named like `assigned_at`, but is of kind other"),
        ({"assigned_at": pa.nulls(ROWS, "int64")}, "`assigned_at` in row 0 is missing"),
        ({"assigned_at": pa.array([dt.time(1)] * ROWS)}, "'assigned_at' is named like"),
        ({"assigned_at": pa.array(["yesterday"] * ROWS), "arrived_at": at(CAME)}, "yesterday"),
        ({"assigned_at": pa.array(range(2**63, 2**63 + ROWS), "uint64")}, "out of range"),
        ({"outcome": pa.array(["5"] * ROWS)}, "'outcome' is of kind text"),
        ({"p0": pa.array([0.5] * ROWS).cast("float16")}, "cannot be read"),
        ({"p0": pa.nulls(ROWS)}, "propensities"),
    ],
)
def test_columns_that_cannot_be(columns, words):
    refused(words, DRAWN.wide(**columns))


def test_delays_that_cannot_be_read_are_not_passed_over():
    table = DRAWN.wide().drop(["arrived_at"])
    refused("'delay' is named like `delay`", table.append_column("delay", pa.array(["3 days"] * ROWS)))
    refused("before its assignment", table.append_column("delay", pa.array([-1] * ROWS)))
    steps = table.drop(["assigned_at"]).append_column("arrived_at", pa.array(CAME))
    same(bl.read(steps))


@pytest.mark.parametrize(
    ("column", "value"), [("arm", 1), ("arm", ["A"]), ("outcome", "x"), ("assigned_at", "x"), ("p_A", Decimal("0.5"))]
)
def test_dataframes_that_mix_types(column, value):
    frame = DRAWN.wide().to_pandas()
    frame[column] = frame[column].astype(object)
    frame.at[HERE, column] = value
    error = refused(f"Column '{column}' in row {HERE} is {re.escape(repr(value))}; it must be of type", frame)
    assert error.row == HERE


def test_lists_of_propensities():
    def lists(change=lambda p: p):
        rows = [change(p) if i == 7 else p for i, p in enumerate(DRAWN.p.tolist())]
        return DRAWN.wide().drop(["p_A", "p_B"]).append_column("propensities", pa.array(rows, pa.list_(pa.float64())))

    same(bl.read(lists()))
    for change in (lambda p: p[:1], lambda p: None, lambda p: [None, p[1]], lambda p: [], lambda p: [np.nan, p[1]]):
        refused("`propensity` in row 7 for arm 'A' is nan", lists(change))
    refused("3 columns but `arm` holds 2", lists(lambda p: [*p, 0.0]))
    refused("must sum to 1", lists(lambda p: [0.5, 0.6]))
    refused("must lie in", lists(lambda p: [-0.5, 1.5]))
    refused("gives the chosen arm", lists(lambda p: [float(DRAWN.code[7] != 0), float(DRAWN.code[7] != 1)]))


def test_arms_and_moments_that_cannot_be():
    table = DRAWN.wide()
    assert bl.read(table, arms=["B", "A"]).arms == ("B", "A")
    refused("No column holds the propensity of arm 'C'", table, arms=["A", "B", "C"])
    refused("it must be one of `arms`", table, arms=["A"])
    refused("it must be one of `arms`", table, arms=[])
    refused("repeats a label", table, arms=["A", "A", "B"])
    for moment in ("2026-01-01", "x", np.nan, True, [1], dt.datetime(2026, 1, 1)):
        refused("this log's times are numbers", table, as_of=moment)
    refused("no rows as of 0", table, as_of=0)
    dated = DRAWN.wide(assigned_at=at(DRAWN.t), arrived_at=at(CAME))
    for moment in (5, "x", "2026-13-01"):
        refused("this log's times are datetimes", dated, as_of=moment)
    refused("no rows as of 2020-01-01", dated, as_of="2020-01-01")
    for window in ("5x", float("inf"), 10**30, "7d"):
        refused("`window` is", table, events=True, window=window)


def test_faults_of_joined_tables_name_the_key():
    table = DRAWN.wide()
    keys = pa.array([f"k'{i}\n" for i in range(ROWS)])
    made = table.drop(["outcome", "arrived_at"]).append_column("id", keys)
    came = table.select(["outcome", "arrived_at"]).append_column("id", keys).filter(pc.is_valid(table["outcome"]))
    same(bl.read(made, came))
    rows = came.to_pylist()
    for change, words in (({"arrived_at": -9}, "is -9, before"), ({"outcome": np.inf}, "is inf")):
        bad = pa.Table.from_pylist([*rows[:5], {**rows[5], **change}, *rows[6:]])
        refused(rf"in the row of key .k'{DRAWN.here[5]}\\n. {words}", made, bad)


# ---------------------------------------------------------------- the command line


def run(*arguments):
    result = CliRunner().invoke(app, ["analyze", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--estimator", "daipv"], "Did you mean 'daipw'?"),
        (["--format", "jsn"], "Did you mean 'json'?"),
        (["--duplicates", "frist"], "Did you mean 'first'?"),
        (["--level", "2"], "strictly between 0 and 1"),
        (["--window", "7d"], "without `events`"),
        (["--events"], "without `window`"),
        (["--measure", "sum"], "without `events`"),
        (["--report", "no/where.html"], "there is no folder `no`"),
        (["--report", "."], "it is a folder"),
        (["--report", "/dev/null"], "it is not a file"),
        (["--report", f"{'x' * 300}.html"], "File name too long"),
        (["--policy", "A=0.5,B=0.6"], "must sum to 1"),
        (["--policy", "C=1"], "There is no arm 'C'"),
        (["--policy", "A=nan,B=1"], "finite"),
        (["--policy", ""], "`policy` is empty"),
        (["--contrast", "B-C"], "There is no arm 'C'"),
        (["--contrast", "B"], "two arms with a dash"),
        (["--contrast", "B-B"], "two different arms"),
        (["--baseline", "Z"], "There is no arm 'Z'"),
        (["--as-of", "tomorrow"], "times are numbers"),
        (["--as-of", "0"], "no rows as of 0"),
        (["--arm", "am"], "Did you mean 'arm'?"),
        (["--propensity", "=,"], "each arm needs one part"),
    ],
)
def test_a_command_that_cannot_be(options, words):
    pa.parquet.write_table(DRAWN.wide(), "a.parquet")
    result = run("a.parquet", *options)
    told = result.stderr.strip().splitlines()
    assert (result.exit_code, result.stdout) == (2, "")
    assert told[-1].startswith("Error: ")
    assert words in told[-1]
    assert os.listdir() == ["a.parquet"]


def test_contrasts_of_arms_with_dashes():
    labels = ("a-b", "a", "b-c", "c")
    pa.parquet.write_table(Drawn(labels).table({f"p{k}": f"p_{x}" for k, x in enumerate(labels)}), "a.parquet")
    assert run("a.parquet", "--contrast", "a-b - b-c", "--contrast", "c-a").exit_code == 0
    assert "can be read in 2 ways" in run("a.parquet", "--contrast", "a-b-c").stderr


def test_json_alone_is_on_stdout():
    pa.parquet.write_table(DRAWN.wide(), "a.parquet")
    result = run("a.parquet", "--format", "json", "--report", "r.html")
    assert json.loads(result.stdout)["schema"] == 1
    assert Path("r.html").stat().st_size > 10_000


def command(*arguments, **options):
    source = Path(bl.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "TMPDIR": str(Path.cwd().parent / "spill")}
    return subprocess.Popen(
        [sys.executable, "-m", "belated", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyze", "a.csv", "--levle", "0.9"], "--level"),
        (["analyse", "a.csv"], "Did you mean 'analyze'?"),
    ],
)
def test_a_command_line_that_is_misspelt(arguments, words):
    with command(*arguments) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith("Error: ")
    assert words in err
    assert err.count("\n") == 1


def test_a_reader_that_has_enough():
    labels = tuple(f"arm {k} {'x' * 300}" for k in range(120))
    pa.parquet.write_table(Drawn(labels, rows=400).table().select(["arm", "outcome", "p0"]), "a.parquet")
    with command("analyze", "a.parquet", "--propensity", "p0", "--estimator", "dipw", "--format", "json") as process:
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_nothing():
    late(600_000)
    with command("analyze", "late.csv", "--report", "r.html") as process:
        assert process.stderr.readline().startswith("columns: ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err == "Stopped; nothing was written.\n"
    assert os.listdir() == ["late.csv"]
    with pytest.raises(KeyboardInterrupt), sentences("late.csv"):
        raise RuntimeError("Query interrupted")  # as DuckDB says it
