from __future__ import annotations

import threading

import pytest

from belated.base import progress
from belated.base.progress import Bar, note, watched


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_bar_says_how_much_is_done_and_how_long_the_rest_takes(clock, capsys):
    bar = Bar(1000, "200: ")
    bar.show(0)
    clock[0] += 60
    bar.show(250)
    clock[0] += 4000
    bar.show(500)
    bar.clear()
    _, first, then, last, cleared = capsys.readouterr().err.split("\r")
    assert first == f"200: [{'.' * 30}]   0%\x1b[K"
    assert then == f"200: [{'#' * 7}{'.' * 23}]  25%, 3 min 00 s left\x1b[K"
    assert last.startswith(f"200: [{'#' * 15}{'.' * 15}]  50%, 1 h 07 min left")
    assert cleared == "\x1b[K"


def test_it_speaks_ten_times_a_second_at_most_but_says_the_end(clock, capsys):
    bar = Bar(100)
    for done in range(1, 101):
        clock[0] += 0.01
        bar.show(done)
    lines = capsys.readouterr().err.split("\r")[1:]
    assert 8 <= len(lines) <= 13
    assert "100%, 0 s left" in lines[-1]


def test_a_bar_that_is_patient_leaves_no_trace_of_what_is_quick(clock, capsys):
    bar = Bar(100, patience=2.0)
    clock[0] += 1.9
    bar.show(50)
    bar.clear()
    assert capsys.readouterr().err == ""
    clock[0] += 0.2
    bar.show(60)
    assert "60%" in capsys.readouterr().err


def test_what_takes_long_is_watched_on_a_terminal_only(monkeypatch, capsys):
    asked = threading.Event()

    def percent():
        asked.set()
        return 40.0

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with watched("Reading ", percent):
        pass
    assert not asked.is_set()
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with watched("Reading ", percent):
        assert asked.wait(60)
    shown = capsys.readouterr().err
    assert "Reading [############" in shown
    assert shown.endswith("\r\x1b[K")


def test_a_note_is_for_terminals(monkeypatch, capsys):
    note("Compiling.")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    note("Compiling.")
    assert capsys.readouterr().err == "\r\x1b[KCompiling.\n"
