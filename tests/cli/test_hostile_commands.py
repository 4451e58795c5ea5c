from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import invoke
from drawn import DRAWN, NAMES, Drawn, named

import belated as bl
import belated.cli.app as entry
from belated.base.text import printable
from belated.reports.analysis import Questions, analyse
from belated.reports.rendering import write_report

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.bad = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "img", "iframe") or any(name.startswith("on") for name, _ in attrs):
            self.bad.append(tag)


def test_no_name_escapes_from_any_output():
    drawn = Drawn(NAMES, rows=200)
    analysis = analyse(bl.read(drawn.table(), propensity=named(drawn)), Questions(policies=({NAMES[0]: 1.0},)))
    arms = json.loads(analysis.to_json())["answers"][0]["arms"]
    assert [arm["arm"] for arm in arms] == list(NAMES)
    rows = csv.DictReader(io.StringIO(analysis.to_csv(), newline=""))
    assert [row["question"] for row in rows if row["kind"] == "arm"] == list(map(printable, NAMES))
    text, markdown = analysis.to_text(), analysis.to_markdown()
    assert not re.search("[\0\x1b\u202e\r]", text + markdown + analysis.to_csv())
    assert not re.search(r"(?<!\\)<script", markdown)
    assert not re.search(r"(?<!\\)\]\(java", markdown)
    write_report(analysis, "r.html", title=NAMES[3], command=f"belated {NAMES[3]}")
    tags = Tags()
    tags.feed(Path("r.html").read_text(encoding="utf-8"))
    assert not tags.bad


def test_no_segment_escapes_from_any_output():
    hostile = [*NAMES, "=cmd|' /C calc'!A0", "'); DROP TABLE log; --", "a, b: c"]
    rows = 40 * len(hostile)
    columns = {
        "arm": ["A", "B"] * (rows // 2),
        "outcome": [float(k % 7) for k in range(rows)],
        "p_A": [0.5] * rows,
        "p_B": [0.5] * rows,
        "who": [hostile[k // 2 % len(hostile)] for k in range(rows)],
    }
    analysis = analyse(bl.read(pa.table(columns), segment="who"), Questions(by_segment=True, lift=True))
    segments = json.loads(analysis.to_json())["segments"]
    assert {each["segment"] for each in segments} == set(hostile)
    table = list(csv.DictReader(io.StringIO(analysis.to_csv(), newline="")))
    assert not any(re.match("[=+@]", row["segment"]) for row in table)
    text, markdown = analysis.to_text(), analysis.to_markdown()
    assert not re.search("[\0\x1b\u202e\r]", text + markdown + analysis.to_csv())
    assert not re.search(r"(?<!\\)<script", markdown)
    write_report(analysis, "r.html")
    tags = Tags()
    tags.feed(Path("r.html").read_text(encoding="utf-8"))
    assert not tags.bad


def run(*arguments):
    result = invoke(["analyze", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--estimator", "daipv"], "Did you mean 'daipw'?"),
        (["--format", "jsn"], "Did you mean 'json'?"),
        (["--duplicates", "frist"], "Did you mean 'first'?"),
        (["--level", "2"], "strictly between 0 and 1"),
        (["--window", "7d"], "without --events"),
        (["--events"], "without --window"),
        (["--measure", "sum"], "without --events"),
        (["--report", "no/where.html"], "there is no folder `no`"),
        (["--report", "."], "it is a folder"),
        (["--report", "/dev/null"], "it is not a file"),
        (["--report", f"{'x' * 300}.html"], "File name too long"),
        (["--policy", "A=0.5,B=0.6"], "must sum to 1"),
        (["--policy", "C=1"], "There is no arm 'C'"),
        (["--policy", "A=nan,B=1"], "finite"),
        (["--policy", ""], "--policy is empty"),
        (["--contrast", "B-C"], "There is no arm 'C'"),
        (["--contrast", "B"], "it must be two arms, such as B-A"),
        (["--contrast", "B-B"], "two different arms"),
        (["--baseline", "Z"], "There is no arm 'Z'"),
        (["--as-of", "tomorrow"], "it must be a number"),
        (["--as-of", "0"], "no rows as of 0"),
        (["--arm", "am"], "Did you mean 'arm'?"),
        (["--propensity", "=,"], "each arm needs one part"),
    ],
)
def test_a_command_that_cannot_be(options, words):
    pa.parquet.write_table(DRAWN.wide(), "a.parquet")
    result = run("a.parquet", *options)
    lines = result.stderr.strip().splitlines()
    assert (result.exit_code, result.stdout) == (2, "")
    assert lines[-1].startswith("Error: ")
    assert words in lines[-1]
    assert os.listdir() == ["a.parquet"]


def test_contrasts_of_arms_with_dashes():
    labels = ("a-b", "a", "b-c", "c")
    pa.parquet.write_table(Drawn(labels).table({f"p{k}": f"p_{x}" for k, x in enumerate(labels)}), "a.parquet")
    assert run("a.parquet", "--contrast", "a-b - b-c", "--contrast", "c-a").exit_code == 0
    assert "can be read in 2 ways" in run("a.parquet", "--contrast", "a-b-c").stderr


def test_the_name_of_a_file_that_was_written_is_printable():
    pa.parquet.write_table(DRAWN.wide(), "a.parquet")
    assert run("a.parquet", "--report", "a\x1b[31m\nb.html").stderr.endswith("\nReport: a\\x1b[31m\\nb.html\n")


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


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["analyze", "--help"]])
def test_help_that_cannot_be_written(arguments):
    source = Path(bl.__file__).parents[1]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "belated", *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "Error: No space left on device.\n"


def test_help_that_nobody_reads():
    source = Path(bl.__file__).parents[1]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "belated", "--help"], stdout=writer, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "2>/dev/full"])
@pytest.mark.parametrize("arguments", ["--version", "analyze no.csv"])
def test_streams_that_are_closed(closed, arguments):
    command = f"{sys.executable} -m belated {arguments} {closed}"
    source = Path(bl.__file__).parents[1]
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(source)}
    )
    assert done.returncode == (0 if arguments == "--version" else 2)
    assert "Traceback" not in done.stderr


def test_remarks_that_cannot_be_written_do_not_stop_the_result(monkeypatch, capsys):
    pa.csv.write_csv(DRAWN.wide(), "a.csv")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        monkeypatch.setattr(sys, "argv", ["belated", "analyze", "a.csv"])
        with pytest.raises(SystemExit) as stop:
            entry.run()
        with suppress(OSError):
            full.close()
    assert stop.value.code == 0
    assert "daipw" in capsys.readouterr().out
