from __future__ import annotations

import dataclasses
import inspect
import os

import pytest
import typer

import belated as bl
from belated.cli.app import COMMANDS, build
from belated.cli.options import LogOptions
from belated.cli.output import FORMATS
from belated.estimation.estimators import ESTIMATORS
from belated.estimation.intervals import INTERVALS
from belated.reading.rows_query import DUPLICATES
from belated.simulation.paper.reproduction import FIGURES
from belated.summaries.maturing import MEASURES

READERS = ("analyze", "diagnose", "sensitivity", "plan")


def parameters(name):
    return {each.name: each for each in typer.main.get_command(build([name])).commands[name].params}


@pytest.mark.parametrize("command", READERS)
def test_a_command_that_reads_a_log_takes_every_option_of_it(command):
    own, first = parameters(command), parameters("analyze")
    for name in (field.name for field in dataclasses.fields(LogOptions)):
        is_own = (command, name) == ("plan", "source")  # which may be a description, too
        for part in ("opts", "default", "required") if is_own else ("opts", "help", "default", "required"):
            assert getattr(own[name], part) == getattr(first[name], part)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_a_default_is_said_by_the_help_or_shown(command):
    for each in parameters(command.__name__).values():
        if each.param_type_name == "option" and each.name != "seed":
            assert each.help
        if each.default is not None and each.show_default is False:
            pytest.fail(f"{each.name} hides its default, {each.default}")


def test_options_have_one_text_wherever_they_are():
    for name in ("form", "plot", "seed", "workers"):
        texts = {
            parameters(command.__name__)[name].help
            for command in COMMANDS
            if name in inspect.signature(command).parameters and command.__name__ != "paper"
        }
        assert len(texts) == 1


def test_a_closed_set_of_words_is_in_the_help_word_for_word():
    sets = {
        "form": FORMATS,
        "interval": INTERVALS,
        "estimator": ESTIMATORS,
        "duplicates": DUPLICATES,
        "measure": MEASURES,
    }
    for name, words in sets.items():
        assert all(word in parameters("analyze")[name].help for word in words)
    assert all(figure in parameters("paper")["figure"].help for figure in FIGURES)


NONE = {field.name: None for field in dataclasses.fields(LogOptions)} | {
    "duplicates": "error", "events": False, "closed_only": False, "propensity_unit": "fraction", "decimal": ".",
}  # fmt: skip


def test_they_are_the_arguments_of_read():
    arguments = set(inspect.signature(bl.read).parameters)
    expected = arguments - {"maturing"} | {"measure", "closed_only"}
    assert {field.name for field in dataclasses.fields(LogOptions)} == expected


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


@pytest.mark.parametrize(
    ("command", "suffix", "options"),
    [
        ("analyze", "csv", []), ("analyze", "parquet", []), ("diagnose", "duckdb", []), ("study", "toml", []),
        ("sensitivity", "arrow", ["--contrast", "B-A"]), ("plan", "toml", ["--half-width", "1"]),
        ("simulate", "toml", ["-o", "log.csv"]),
    ],
)  # fmt: skip
def test_no_command_waits_for_a_pipe(command, suffix, options, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(f"pipe.{suffix}")
    assert "is a pipe or a device" in refused(command, f"pipe.{suffix}", *options)
