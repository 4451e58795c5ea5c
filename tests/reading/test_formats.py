from __future__ import annotations

import gzip
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from drawn import DRAWN, ROWS, database, refused, same, write

import belated as bl
from belated.reading.formats import FORMATS, format_of, looks_like_a_file

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


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


def broken(content, how):
    if how == "page":
        return content[:30] + bytes(30) + content[60:]
    if how == "footer":
        return content[:-600] + b"\xff" * 580 + content[-20:]
    return {"empty": b"", "text": b"a,b\n1,2\n", "half": content[: len(content) // 2]}[how]


@pytest.mark.parametrize("how", ["empty", "text", "half", "footer", "page"])
@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_of_several_files_the_broken_one_is_named(form, how):
    if (form, how) == ("feather", "page"):
        return  # the bytes are those of a header that nobody needs
    table = DRAWN.wide()
    path = folder(table.slice(0, 20), table.slice(20, 20), table.slice(40), form=form)
    Path(path, f"1.{form}").write_bytes(broken(Path(path, f"1.{form}").read_bytes(), how))
    refused(f"^`1.{form}` cannot be read: it is (not|a damaged|damaged)", path)
    refused(f"^`1.{form}` cannot be read: it is (not|a damaged|damaged)", f"{path}/*.{form}")


def test_of_an_assignment_and_an_outcome_file_the_broken_one_is_named():
    pa.parquet.write_table(
        DRAWN.wide().drop(["outcome", "arrived_at"]).append_column("id", pa.array(range(ROWS))), "a.parquet"
    )
    pa.parquet.write_table(pa.table({"id": range(ROWS), "outcome": [1.0] * ROWS}), "b.parquet")
    Path("b.parquet").write_bytes(broken(Path("b.parquet").read_bytes(), "page"))
    refused("^`b.parquet` cannot be read: it is a damaged Parquet file", "a.parquet", "b.parquet")


def test_a_column_of_two_types_in_arrow_files_is_named_with_its_file():
    table = DRAWN.wide()
    text = table.set_column(table.column_names.index("outcome"), "outcome", pa.array(["x"] * ROWS))
    sentence = "^Column 'outcome' is of type string in `1.feather`, but of type double in the files before it; it must"
    refused(sentence, folder(table, text, form="feather"))


def test_arrow_in_other_forms_is_told_what_it_is():
    table = DRAWN.wide()
    with pa.OSFile("a.arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    refused(
        "^`a.arrow` cannot be read: it is not an Arrow file, but an Arrow stream; write it as an Arrow file", "a.arrow"
    )
    write("b.feather", b"FEA1" + bytes(60))
    refused(
        "^`b.feather` cannot be read: it is not an Arrow file, but a Feather file of version 1; write it again",
        "b.feather",
    )
    pa.parquet.write_table(table, "c.arrow")
    refused(
        "^`c.arrow` cannot be read: it is not an Arrow file, but a Parquet file; its name must end in .parquet",
        "c.arrow",
    )
    write("d.arrows", b"")
    refused("; write an Arrow stream as an Arrow file, .arrow", "d.arrows")


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
    for path in ("", "nothing.csv", "dangling.csv", "a\0b.csv", "x" * 5000 + ".csv"):
        refused("There is no file", path)
    refused("Standard input is not read, because a log is read more than once", "-")
    refused("s3 is not a known database", "s3://bucket/x.parquet")
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
    messages = {"parquet": "not a Parquet file", "feather": "not an Arrow file", "duckdb": "not a DuckDB database",
                "csv.gz": "not a GZIP file", "csv": "not text in UTF-8|cannot be read as CSV"}  # fmt: skip
    for form, words in messages.items():
        for content in (b"", b"hello, you\n" * 30, noise, whole, whole[:700], arrow[:1500], packed[:900]):
            is_text = content in (b"", b"hello, you\n" * 30)
            if not (form == "csv" and is_text) and not (form == "parquet" and content == whole):
                refused(words, write(f"x.{form}", content))
    broken = bytearray(arrow)
    broken[300:900] = b"\xff" * 600
    refused("not an Arrow file", write("b.feather", bytes(broken)))
    same(bl.read(write("ok.csv.gz", packed)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # an outcome may become 1e200, whose square is too large
def test_a_damaged_file_is_refused_or_read_but_never_more_than_that():
    table, rng = DRAWN.wide(), np.random.default_rng(5)
    coded = table.set_column(0, "arm", table["arm"].dictionary_encode())
    pa.feather.write_feather(table, "plain.arrow", compression="uncompressed")
    pa.feather.write_feather(table, "packed.arrow")
    pa.feather.write_feather(coded, "coded.arrow", compression="uncompressed")
    pa.parquet.write_table(table, "plain.parquet")
    # the first of each made DuckDB read memory that was not its own
    known = {"plain.arrow": [(831, 239)], "packed.arrow": [(1018, 98)], "coded.arrow": [(1158, 98)]}
    for name in ("plain.arrow", "packed.arrow", "coded.arrow", "plain.parquet"):
        whole, refusals = Path(name).read_bytes(), 0
        drawn = [(int(rng.integers(len(whole))), int(rng.integers(1, 256))) for _ in range(9)]
        for place, change in known.get(name, []) + drawn:
            damaged = bytearray(whole)
            damaged[place] ^= change
            try:
                bl.estimate(bl.read(write(f"damaged-{name}", bytes(damaged))))
            except bl.BelatedError:
                refusals += 1
        assert refusals > 1


def test_a_damaged_duckdb_database_never_gives_another_answer():
    rng = np.random.default_rng(6)
    with duckdb.connect("whole.duckdb") as connection:
        connection.register("drawn", DRAWN.wide())
        connection.execute("CREATE TABLE log AS FROM drawn")
    whole = Path("whole.duckdb").read_bytes()
    used = np.flatnonzero(np.frombuffer(whole, dtype=np.uint8))
    wanted = bl.estimate(bl.read("whole.duckdb")).values
    damaged = [whole[:end] for end in (100, 5_000, 12_288, len(whole) - 1)]
    damaged += [
        whole[:place] + bytes([whole[place] ^ int(rng.integers(1, 256))]) + whole[place + 1 :]
        for place in (*rng.choice(used, 12), *rng.integers(len(whole), size=4))
    ]
    refusals = 0
    for content in damaged:
        try:
            np.testing.assert_array_equal(bl.estimate(bl.read(write("damaged.duckdb", content))).values, wanted)
        except bl.BelatedError:
            refusals += 1
    assert refusals > 14


def test_offsets_that_lead_out_of_an_arrow_file_are_refused():
    offsets = np.array([0, 10**6, 2], dtype=np.int32)
    column = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"AB")])
    with pa.OSFile("a.arrow", "wb") as file:
        batch = pa.RecordBatch.from_arrays([column], names=["arm"])
        with pytest.raises(pa.ArrowInvalid):
            batch.validate(full=True)
        with pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
    refused("it is not an Arrow file, or it is incomplete or damaged", "a.arrow")


def test_tables_without_rows():
    none = DRAWN.wide().slice(0, 0)
    pa.parquet.write_table(none, "a.parquet")
    pa.csv.write_csv(none, "a.csv")
    for source in ("a.parquet", "a.csv", none, none.to_pandas(), write("b.csv", "")):
        refused("has no rows", source)
    assignments = DRAWN.wide().drop(["outcome", "arrived_at"]).append_column("id", pa.array(range(ROWS)))
    pa.csv.write_csv(assignments, "assignments.csv")
    write("outcomes.csv", "id,outcome,arrived_at\n")
    assert np.isnan(bl.estimate(bl.read("assignments.csv", "outcomes.csv")).values).all()


def late(rows, **columns):
    """Return a longer experiment, in which only the last rows show what the columns hold."""
    arm = np.array(["A", "B"])[np.arange(rows) % 2]
    step = np.arange(1, rows + 1)
    plain = {"arm": arm, "outcome": step % 3, "assigned_at": step, "arrived_at": step + 3, "p_A": np.full(rows, 0.5),
             "p_B": np.full(rows, 0.5)}  # fmt: skip
    table = pa.table({**plain, **columns})
    pa.csv.write_csv(table, "late.csv")
    return table


def test_a_format_is_known_by_how_a_name_ends():
    assert {format_of(f"a{suffix}").name for suffix in (".csv", ".TSV", ".txt.gz")} == {"CSV"}
    assert [format_of(f"a{suffix}").name for suffix in (".pq", ".feather", ".db")] == ["Parquet", "Arrow", "DuckDB"]
    suffixes = [suffix for entry in FORMATS for suffix in (*entry.usual, *entry.suffixes)]
    assert len(suffixes) == len(set(suffixes))
    assert looks_like_a_file("a/b")
    assert looks_like_a_file("a.pq")
    assert not looks_like_a_file("outcomes")


def test_two_columns_of_one_name_in_a_parquet_file_are_refused():
    table = DRAWN.wide().append_column("outcome_1", pa.array([1.0] * ROWS))
    nested = table.append_column("of", pa.array([{"x": {"outcome": 1, "y": 2}, "arm": 3}] * ROWS))
    pa.parquet.write_table(nested.append_column("last_2", nested["arm"]), "a.parquet")
    same(bl.read("a.parquet"))
    twice = [*DRAWN.wide().column_names, "outcome", "of"]
    pa.parquet.write_table(nested.rename_columns(twice), "b.parquet")
    refused("`b.parquet` has several columns named 'outcome'; each must have a name of its own", "b.parquet")
    refused("`b.parquet` has several columns named 'outcome'; each must have a name of its own", "[ab].parquet")


def test_a_database_of_sqlite_and_one_that_is_open_say_so():
    with closing(sqlite3.connect("a.db")) as con:
        con.execute("CREATE TABLE log (arm TEXT)")
    refused("it is not a DuckDB database, but an SQLite database; give it as sqlite://PATH", "a.db")
    database(os.path.abspath("b.duckdb"), DRAWN.wide())
    with duckdb.connect("b.duckdb"):
        refused("`b.duckdb` cannot be read: this program has it open already; close", "b.duckdb")


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_a_file_that_changes_after_it_was_read_is_refused(form):
    write_table = pa.parquet.write_table if form == "parquet" else pa.feather.write_feather
    table = DRAWN.wide()
    write_table(table, f"log.{form}")
    log = bl.read(f"log.{form}")
    bl.estimate(log)
    write_table(pa.concat_tables([table, table.slice(0, 20)]), "new")
    os.replace("new", f"log.{form}")
    for ask in (bl.estimate, bl.diagnose, bl.sequence):
        with pytest.raises(bl.LogError, match=rf"`log\.{form}` has changed since it was first read; read it again"):
            ask(log)
    assert bl.estimate(bl.read(f"log.{form}")).sums["assigned"].sum() == ROWS + 20
    log = bl.read(f"log.{form}")
    os.remove(f"log.{form}")
    with pytest.raises(bl.LogError, match=rf"`log\.{form}` has changed since it was first read"):
        bl.estimate(log)


def test_the_rows_of_a_file_count_once():
    table = DRAWN.wide()
    folder(table.slice(0, 30), table.slice(30))
    os.symlink("1.parquet", "parts/latest.parquet")
    refused("`parts/1.parquet` and `parts/latest.parquet` are the same file, whose rows would count twice", "parts")
    refused("are the same file", "parts/*.parquet")
    os.remove("parts/latest.parquet")
    os.link("parts/1.parquet", "parts/2.parquet")
    refused("are the same file", "parts")


def test_links_that_would_leave_rows_out_are_refused():
    table = DRAWN.wide()
    folder(table.slice(0, 30))
    os.symlink("gone.parquet", "parts/1.parquet")
    refused("`parts/1.parquet` cannot be read: it is a link to a file that is not there", "parts")
    refused("it is a link to a file that is not there", "parts/*.parquet")
    os.remove("parts/1.parquet")
    folder(table.slice(30), name="elsewhere")
    os.symlink("../elsewhere", "parts/more")
    refused("`parts/more` is a link to a folder, which is not followed", "parts")
    same(bl.read("parts/**/*.parquet"))
    os.rename("parts/more", "parts/_more")
    assert bl.estimate(bl.read("parts")).sums["assigned"].sum() == 30
