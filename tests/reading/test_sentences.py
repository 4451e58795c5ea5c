from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import belated as bl
from belated.reading.sentences import first_line, sentences

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]


def late(rows, **columns):
    """Return a longer experiment, in which only the last rows show what the columns hold."""
    arm = np.array(["A", "B"])[np.arange(rows) % 2]
    step = np.arange(1, rows + 1)
    plain = {"arm": arm, "outcome": step % 3, "assigned_at": step, "arrived_at": step + 3, "p_A": np.full(rows, 0.5),
             "p_B": np.full(rows, 0.5)}  # fmt: skip
    table = pa.table({**plain, **columns})
    pa.csv.write_csv(table, "late.csv")
    return table


def command(*arguments, **options):
    source = Path(bl.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "TMPDIR": str(Path.cwd().parent / "spill")}
    return subprocess.Popen(
        [sys.executable, "-m", "belated", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, **options,
    )  # fmt: skip


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


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "IO Error: No magic bytes found at end of file '/tmp/x/a.parquet'",
            "it is not a Parquet file, or not all of it.",
        ),
        ("[Errno 13] Permission denied: '/root/a.csv'", "that is not permitted."),
        ("Something else. See also https://x.org", "Something else."),
    ],
)
def test_an_engine_s_words_become_a_sentence(said, meant):
    with pytest.raises(bl.LogError) as caught, sentences("a.parquet"):
        raise OSError(said)
    assert str(caught.value) == f"`a.parquet` cannot be read: {meant}"


def test_mistakes_of_ours_are_not_an_engine_s():
    with pytest.raises(KeyError), sentences("a.csv"):
        raise KeyError("x")
    with pytest.raises(bl.OptionError, match="as it was"), sentences("a.csv"):
        raise bl.OptionError("as it was")


def test_the_first_line_has_no_folders_and_advice():
    assert first_line(OSError("Catalog Error: /home/me/x.csv is odd!\nLINE 1: SELECT")) == "x.csv is odd."
    assert first_line(OSError("")) == "OSError."
