from __future__ import annotations

import dataclasses
import inspect

import pytest

import belated as bl
from belated.cli.log_options import LogOptions

NONE = {field.name: None for field in dataclasses.fields(LogOptions)} | {"duplicates": "error", "events": False}


def test_they_are_the_arguments_of_read():
    arguments = set(inspect.signature(bl.read).parameters)
    assert {field.name for field in dataclasses.fields(LogOptions)} == arguments | {"measure"}


def test_a_log_is_read_and_what_was_guessed_is_said(log, capsys):
    read = LogOptions(**NONE | {"source": str(log), "arms": "B, A", "as_of": "300"}).read()
    assert len(read) == len(bl.read(str(log), as_of=300))
    assert read.arms == ("B", "A")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(read.roles.line(cli=True))


def test_a_measure_is_of_events(log):
    with pytest.raises(bl.OptionError, match="`measure` is given without `events`"):
        LogOptions(**NONE | {"source": str(log), "measure": "sum"}).read()
