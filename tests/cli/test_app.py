from __future__ import annotations

import subprocess
import sys

import pytest
import typer

import belated as bl
from belated.cli import app as module
from belated.cli.app import COMMANDS, build, run


def test_help_and_version(call):
    assert call("--version").stdout == f"belated {bl.__version__}\n"
    text = call("--help").stdout
    for command in COMMANDS:
        assert command.__name__ in text
        assert "Example" in call(command.__name__, "--help").stdout
    for words in ([], ["analyze"], ["live"], ["live", "token", "create"]):
        assert call(*words, "-h").stdout == call(*words, "--help").stdout


@pytest.mark.parametrize("words", [[], ["analyze"], ["live"], ["live", "token"], ["live", "serve"]])
def test_the_help_names_no_type_behind_an_option_that_takes_no_value(words, call):
    assert "<bool>" not in call(*words, "--help").stdout


def test_the_commands_are_these():
    assert [command.name or command.callback.__name__ for command in build().registered_commands] == [
        "analyze", "diagnose", "sensitivity", "plan", "simulate", "study", "paper",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyze", "x.csv"], ["analyze"]),
        (["live", "ask", "x", "y", "z"], ["live", "ask"]),
        (["live", "arm", "add"], ["live", "arm", "add"]),
    ],
)
def test_a_command_that_is_called_is_built_alone_and_is_the_same(arguments, words):
    alone, among_all = (typer.main.get_command(each) for each in (build(arguments), build()))
    for word in words:
        assert list(alone.commands) == [word]
        alone, among_all = alone.commands[word], among_all.commands[word]
        assert (alone.name, alone.help) == (among_all.name, among_all.help)
    assert [(each.name, each.opts) for each in alone.params] == [(each.name, each.opts) for each in among_all.params]


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["live"], ["live", "arm", "ad"], ["analyse"], ["--version", "analyze"]]
)
def test_all_commands_are_built_if_none_is_called(arguments):
    built = build(arguments)
    assert len(built.registered_commands) == len(COMMANDS)
    assert [group.name for group in built.registered_groups] == ["live"]


@pytest.mark.parametrize("command", ["", "analyze"])
def test_the_help_needs_no_heavy_library(command):
    code = f"""
import sys
names = "numpy scipy numba duckdb ibis psycopg starlette uvicorn msgspec pyarrow pandas matplotlib jinja2"
for heavy in names.split():
    sys.modules[heavy] = None
sys.argv = ["belated", *{command.split()!r}, "--help"]
from belated.cli.app import run
run()
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "Example" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["analyze", "x.csv", "--nonsense"], "Error: No such option: --nonsense"),
        (["simulat"], "Error: No such command 'simulat'"),
        (["simulate", "x.toml"], "Error: Missing option '--output'"),
        (["study", "x.toml", "--workers", "0"], "Error: Invalid value for '--workers'"),
    ],
)
def test_a_command_line_that_cannot_be_is_one_sentence(arguments, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["belated", *arguments])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    (sentence,) = err.splitlines()
    assert sentence.startswith(words)
    assert sentence.endswith((".", "?"))


@pytest.mark.parametrize(
    ("option", "value"), [("--level", "95%"), ("--cap", "0,5"), ("--target", "1.5"), ("--target", "1e3")]
)
def test_what_is_no_number_is_shown(option, value, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["belated", "analyze", "x.csv", option, value])
    with pytest.raises(SystemExit):
        run()
    (sentence,) = capsys.readouterr().err.splitlines()
    assert option in sentence
    assert repr(value) in sentence


def test_the_exit_code_of_a_command_is_the_programs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["belated", "study", "/nowhere/x.toml"])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 2
    monkeypatch.setattr(sys, "argv", ["belated", "--version"])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 0


def test_stopping_before_anything_runs(monkeypatch, capsys):
    def stop(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "build", lambda arguments: stop)
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 130
    assert capsys.readouterr().err == "Stopped. No incomplete file was written.\n"
