from __future__ import annotations

import pytest

from belated.base import progress
from belated.base.progress import Bar


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
    assert "compiling takes some seconds" in first
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
