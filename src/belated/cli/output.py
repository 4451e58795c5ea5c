"""Output of commands: results in a format, figures as files, errors as sentences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import typer

from belated.base.checks import one_of
from belated.base.errors import BelatedError, BelatedWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.base.tables import Table

#: The formats of results.
Format = Literal["table", "markdown", "csv", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)

#: Exit codes: invalid options or data; stopped by the user.
WRONG, STOPPED = 2, 130
STOPPED_WORDS = "Stopped. No incomplete file was written."


# ---------------------------------------------------------------- answers


class Formats(Protocol):
    """A result that can be written in each format."""

    def to_text(self) -> str:
        """Return text for a terminal."""

    def to_markdown(self) -> str:
        """Return Markdown."""

    def to_csv(self) -> str:
        """Return CSV."""

    def to_json(self) -> str:
        """Return JSON."""


def check_format(name: str) -> Format:
    """Return a format, or raise with the list of formats."""
    return one_of("format", name, FORMATS)


def show(result: Formats, form: Format, *others: Table) -> None:
    """Write a result to stdout, followed by its other tables in formats for people."""
    if form == "csv":
        words = result.to_csv()
    elif form == "json":
        words = result.to_json()
    elif form == "markdown":
        words = "\n\n".join(each.to_markdown() for each in (result, *others))
    else:
        words = "\n\n".join(_whole(each) for each in (result, *others))
    typer.echo(words.rstrip("\n"))


def _whole(result: Formats) -> str:
    from belated.base.tables import Table

    return result.to_text(every=True) if isinstance(result, Table) else result.to_text()


# ---------------------------------------------------------------- figures


def check_plot(path: Path | None, inputs: Iterable[str | Path] = ()) -> None:
    """Raise, before anything is computed, if a requested figure cannot be drawn or written."""
    if path is not None:
        from belated.base.figures import check_library, figure_files
        from belated.base.files import check_place

        read = list(inputs)
        for file in figure_files(path).values():
            check_place(file, read)
        check_library()


def write_plot(path: Path | None, draw: Callable[[], Figure], title: str) -> None:
    """Draw and write a figure, if one was requested."""
    if path is not None:
        from belated.base.figures import save

        save(draw(), path, title)


# ---------------------------------------------------------------- errors and warnings


@contextmanager
def warned() -> Iterator[None]:
    """Show warnings of this library as sentences on stderr, without the line of code that gave them."""
    with warnings.catch_warnings():
        warnings.showwarning = partial(_say, warnings.showwarning)
        yield


def _say(others: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any, **to: Any) -> None:
    if issubclass(category, BelatedWarning):
        typer.echo(f"Warning: {message}", err=True)
    else:
        others(message, category, *place, **to)


@contextmanager
def sentences(show_argument: Callable[[str, str], str] | None = None) -> Iterator[None]:
    """Turn errors into one sentence on stderr and exit code 2, warnings into sentences; Ctrl-C into exit code 130.

    `show_argument` shows an argument's name and value as the command's option.
    """
    import numpy as np

    try:
        with warned(), np.errstate(all="ignore"):  # overflow shows as NaN or infinity in results, not as a warning
            yield
    except BelatedError as error:
        sentence = str(error) if show_argument is None else error.worded(show_argument)
        from belated.base.text import masked

        typer.echo(f"Error: {masked(sentence)}", err=True)
        raise typer.Exit(WRONG) from None
    except BrokenPipeError:  # the reader closed the pipe
        raise typer.Exit(0) from None
    except OSError as error:
        from belated.base.text import printable

        where = f"`{printable(error.filename)}`: " if error.filename else ""
        typer.echo(f"Error: {where}{error.strerror}.", err=True)
        raise typer.Exit(WRONG) from None
    except MemoryError:
        typer.echo("Error: there is not enough memory for this.", err=True)
        raise typer.Exit(WRONG) from None
    except KeyboardInterrupt:
        typer.echo(STOPPED_WORDS, err=True)
        raise typer.Exit(STOPPED) from None
