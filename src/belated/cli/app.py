"""The command line: its commands, and the entry point."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from typing import Annotated, Any, TextIO, cast

import typer

from belated.base.interrupts import listening
from belated.base.version import __version__
from belated.cli.analyze import analyze
from belated.cli.diagnose import diagnose
from belated.cli.live import commands as live_commands
from belated.cli.options import Command, Group, Signed
from belated.cli.output import STOPPED, STOPPED_WORDS, WRONG, sentences
from belated.cli.paper import paper
from belated.cli.plan import plan
from belated.cli.sensitivity import sensitivity
from belated.cli.simulate import simulate
from belated.cli.study import study

#: In the order of the help.
COMMANDS = (analyze, diagnose, sensitivity, plan, simulate, study, paper)

#: Every command by the words that call it.
_COMMAND_OF = {(command.__name__,): command for command in COMMANDS} | {
    ("live", *words): command for words, command in live_commands().items()
}

_GROUPS = {
    ("live",): "Run experiments: decide, remember, learn as outcomes arrive, answer at any moment.",
    ("live", "arm"): "Add, pause, resume and drop arms.",
    ("live", "segment"): "Add segments.",
    ("live", "policy"): "Change the policy.",
    ("live", "token"): "Make, list and revoke tokens of the service, and make links that log browsers in.",
}

#: The error for a wrong command line, in the version of Click that Typer uses.
_UsageError: Any = typer.BadParameter.__base__


def _options(words: tuple[str, ...]) -> Callable[[str, str], str]:
    """Return how a command's errors show an argument: as the command's option, if it has one of this name."""

    def show(name: str, value: str) -> str:
        command: Any = typer.main.get_command(build(words))
        for word in words:
            command = command.commands[word]
        name, bracket, place = name.partition("[")  # one of several values, such as propensity['A']
        for wanted in (name, f"{name}s"):  # one of several, such as a unit of UNITS
            for parameter in command.params:
                option = max(parameter.opts, key=len)
                if wanted in (parameter.name, option.strip("-").replace("-", "_")):
                    shown = _as_typed(option)
                    return f"{shown} {shlex.quote(value)}" if value else f"{shown}{bracket}{place}"
        return f"`{name}{bracket}{place}={value}`" if value else f"`{name}{bracket}{place}`"

    return show


def _as_typed(parameter: str) -> str:
    return parameter if parameter.startswith("-") else parameter.upper()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"belated {__version__}")
        raise typer.Exit


def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Valid statistics for bandit experiments whose outcomes arrive late, or never.

    `analyze` estimates the arms of an experiment from its tables; `diagnose` checks its assumptions; `sensitivity`
    shows how much missing outcomes could matter; `plan` finds how long to run; `simulate` and `study` simulate an
    experiment described in a file; `paper` reproduces the simulation study of the paper; `live` runs an experiment.

    Example: `belated analyze sent.parquet --outcomes bought.csv --baseline A --report report.html`
    """


def build(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the command line; if arguments call a command, with that command alone.

    Typer reads the options of every command that it is given, which takes some 0.1 s for all of them.
    """
    asked = {words: command for words, command in _COMMAND_OF.items() if words == tuple(arguments[: len(words)])}
    built = typer.Typer(
        name="belated",
        cls=Group,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        callback=main,
    )
    groups: dict[tuple[str, ...], typer.Typer] = {(): built}
    for words, text in _GROUPS.items():
        if not asked or any(each[: len(words)] == words for each in asked):
            groups[words] = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode="markdown", help=text)
            groups[words[:-1]].add_typer(groups[words], name=words[-1])
    for words, command in (asked or _COMMAND_OF).items():
        kind = Signed if words[:-1] else Command
        groups[words[:-1]].command(words[-1], cls=kind)(sentences(_options(words))(command))
    return built


def _usage(error: Any) -> str:
    """Return what is wrong with a command line, with the value that is no number: Typer leaves it out."""
    details: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    wanted = {"float_parsing": "a number", "int_parsing": "a whole number", "int_from_float": "a whole number"}
    kind = wanted.get(details[0]["type"]) if details else None
    if kind is None:
        return str(error.format_message())
    return f"{_as_typed(max(error.param.opts, key=len))} is {details[0]['input']!r}; it must be {kind}."


class _Remarks:
    """Stderr, where what cannot be written is left out: a full disk keeps a remark from its reader, not the result."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._stream, name)
        return value

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def run() -> None:
    """Run the command line; errors in it are also one sentence."""
    # a closed stream's number would be given to the next file that is opened
    sys.stdout, sys.stderr = (each or open(os.devnull, "w") for each in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what its encoding does not have is spelt out
            stream.reconfigure(errors="backslashreplace")
    sys.stderr = cast(TextIO, _Remarks(sys.stderr))
    try:
        with listening(partial(typer.echo, STOPPED_WORDS, err=True), STOPPED):
            code = build(sys.argv[1:])(standalone_mode=False)
    except _UsageError as error:
        from belated.base.text import masked

        sentence = masked(_usage(error)) if sys.argv[1:] else ""
        if not sentence:  # nothing was asked
            error.show()
        else:
            typer.echo(f"Error: {sentence.rstrip('.?')}{'?' if sentence.endswith('?') else '.'}", err=True)
        code = WRONG
    except SystemExit as stop:  # Typer exits with 1 if the reader of the help closed the pipe
        code = 0 if stop.code == 1 else stop.code
    except OSError as error:
        typer.echo(f"Error: {error.strerror}.", err=True)
        code = WRONG
    except (KeyboardInterrupt, typer.Abort):
        typer.echo(STOPPED_WORDS, err=True)
        code = STOPPED
    with suppress(OSError):  # Python would report a failure to write the rest once more
        sys.stdout.flush()
    if code == STOPPED:
        from belated.base.threads import leave

        leave(code)
    sys.exit(code if isinstance(code, int) else 0)
