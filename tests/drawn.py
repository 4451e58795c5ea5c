"""An experiment as tables, files and lines of text, and what every way of reading it must give."""

from __future__ import annotations

import csv
import io
import os
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import belated as bl

ROWS = 60


NAMES = (
    "quo'te", 'dou"ble', "back\\slash", "<script>window.pwned=1</script>", "x'; DROP TABLE t; --", "new\nline",
    "car\rriage", "crlf\r\nx", "tab\tbed", "nul\0x", "\U0001f389", "שלום", "\u202eright", "x" * 10_000, " lead",
    "trail ", "arm", "ARM", "é", "e\u0301", "None", "NA", "nan", "null", "01", "1.0", "{{7*7}}", "\x1b[31m",
    "](javascript:alert(1))", "</td><img src=x onerror=alert(1)>",
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
        self.arrived = np.flatnonzero(~self.out)

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


def write(name, content, encoding="utf-8"):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return name


def database(name, table, *statements):
    with duckdb.connect(name) as connection:
        connection.register("given", table)
        for statement in statements or ("CREATE TABLE t AS SELECT * FROM given",):
            connection.execute(statement)
    return name


def named(drawn):
    return {label: f"p{k}" for k, label in enumerate(drawn.labels)}


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """Work in an empty folder whose temporary folder is empty again at the end."""
    spill = tmp_path / "spill"
    spill.mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(spill))
    yield
    assert not list(spill.iterdir())
    assert not [name for name in os.listdir() if name.startswith(".") or name.endswith((".wal", ".tmp"))]
