"""What goes wrong in a command: one sentence on stderr, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from belated.base.errors import BelatedError

#: Exit codes: the question or the data cannot be; the user stopped it.
WRONG, STOPPED = 2, 130
STOPPED_WORDS = "Stopped; nothing was written."


@contextmanager
def sentences() -> Iterator[None]:
    """Turn what is wrong into one sentence on stderr and exit code 2; Ctrl-C into 130."""
    try:
        yield
    except BelatedError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(WRONG) from None
    except BrokenPipeError:  # whoever read our output has enough of it
        raise typer.Exit(0) from None
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        typer.echo(f"Error: {where}{error.strerror}.", err=True)
        raise typer.Exit(WRONG) from None
    except MemoryError:
        typer.echo("Error: there is not enough memory for this.", err=True)
        raise typer.Exit(WRONG) from None
    except KeyboardInterrupt:
        typer.echo(STOPPED_WORDS, err=True)
        raise typer.Exit(STOPPED) from None
