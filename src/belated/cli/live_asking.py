"""`belated live ask` and `tell`: the arm of a unit, and its outcome, or those of a file."""

from __future__ import annotations

import csv
import datetime as dt
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from belated.base.errors import OptionError, argument
from belated.base.text import shown
from belated.cli.live import Name, Place, opened
from belated.cli.options import option
from belated.cli.output import WRONG

if TYPE_CHECKING:
    from belated.live.records import Tell

#: Outcomes of a file that are stored in one transaction.
_BATCH = 1000


def ask(
    place: Place,
    name: Name,
    units: Annotated[
        list[str],
        typer.Argument(
            help="The units to decide for, such as customer-17; write -- before units that begin with a dash.",
            show_default=False,
        ),
    ],
    segment: Annotated[str | None, option("The units' segment, if the experiment has segments.")] = None,
    format: Annotated[str, typer.Option("--format", help="The format of a line: arm or json.")] = "arm",
) -> None:
    """Print the arm of a unit; it is stored before it is printed, and the same unit always gets the same arm.

    Example: `belated live ask shop.belated "subject line" customer-17`
    """
    from belated.base.checks import one_of
    from belated.base.documents import json_line
    from belated.base.text import printable

    form = one_of("format", format, ("arm", "json"))
    with opened(place, name) as exp:
        for reply in exp.ask_many(units, None if segment is None else [segment] * len(units)):
            typer.echo(json_line("decision", reply.to_dict()) if form == "json" else printable(reply.arm))


def tell(
    place: Place,
    name: Name,
    unit: Annotated[str | None, typer.Argument(help="The unit of the outcome.", show_default=False)] = None,
    value: Annotated[float | None, typer.Argument(help="The outcome. Default: 1.", show_default=False)] = None,
    key: Annotated[
        str, option("For events: a key that distinguishes several events of a unit, such as an order's number.")
    ] = "",
    happened_at: Annotated[
        str | None,
        option("For events: when it happened, such as 2026-03-01T09:30; UTC unless a zone follows. Default: now."),
    ] = None,
    correct: Annotated[bool, typer.Option("--correct", help="The value corrects an earlier one.")] = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A CSV file with the columns unit and value, and optionally key and happened_at.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Store the outcome of a unit, or of all units of a file; telling it again changes nothing.

    Example: `belated live tell shop.belated "subject line" customer-17 1`
    """
    if (unit is None) == (source is None):
        raise OptionError(f"Give a {argument('unit')} and its value, or a file with {argument('from')}.")
    if unit is not None and value is None and Path(unit).is_file():
        raise OptionError(
            f"{argument('unit')} is {shown(unit)}, which is a file; for the outcomes in it, write {argument('from')} "
            "before it. If a unit has this name, give its value, too."
        )
    from belated.live.calls import read_tell, taken

    when = None if happened_at is None else _time(happened_at)
    if source is not None and (key or happened_at):
        what = argument("key" if key else "happened_at")
        raise OptionError(f"{what} is for one outcome; with {argument('from')}, give it in a column of the file.")
    with opened(place, name) as exp:
        if unit is not None:
            given = read_tell(exp.setup.outcome, unit, 1.0 if value is None else value, key, when, correct)
            typer.echo(taken(exp.tell_many([given])[0]).status)
            return
        counts: Counter[str] = Counter()
        rows = _rows(source, correct=correct) if source is not None else iter(())
        number = 0
        while batch := list(islice(rows, _BATCH)):
            for told in exp.tell_many(batch):
                number += 1
                counts[told.status] += 1
                if not told.taken:
                    typer.echo(f"Row {number:,}: {told.why}", err=True)
    typer.echo(", ".join(f"{n:,} {status}" for status, n in sorted(counts.items())) or "no rows")
    if counts["contradiction"] or counts["refused"]:
        raise typer.Exit(WRONG)


def _time(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{argument('happened_at')} is {text!r}; it must be like 2026-03-01T09:30.") from None


def _rows(path: Path, *, correct: bool) -> Iterator[Tell]:
    """Give the outcomes of a CSV file."""
    from belated.base.files import check_file
    from belated.live.records import Tell

    check_file(path)
    for number, row in enumerate(_lines(path)):
        if number == 0:
            continue  # the names of the columns
        why = _fault(row)
        if why is not None:
            raise OptionError(
                f"`{path}` has in row {number:,} {why}; correct it, and tell the file again: nothing is stored twice."
            )
        when = row.get("happened_at")
        happened = dt.datetime.fromisoformat(when) if when else None
        yield Tell(row["unit"], float(row["value"]), row.get("key") or "", happened, correct)


def _fault(row: dict[str, str]) -> str | None:
    """Return what is wrong with a row of a file, or None."""
    if None in row:
        return "more fields than there are columns; text with a comma must be in quotes"
    if row["value"] is None or row["unit"] is None:
        return "fewer fields than there are columns"
    try:
        float(row["value"])
    except ValueError:
        return f"a value that is not a number, {shown(row['value'])}"
    try:
        dt.datetime.fromisoformat(row.get("happened_at") or "2026-03-01")
    except ValueError:
        return f"a time that cannot be read, {shown(row['happened_at'])}; it must be like 2026-03-01T09:30"
    return None


def _lines(path: Path) -> Iterator[dict[str, str]]:
    """Give the names of a CSV file's columns, then its rows."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            names = [name.strip() for name in reader.fieldnames or []]
            if names.count("unit") != 1 or names.count("value") != 1:
                raise OptionError(f"`{path}` has no columns named unit and value; its first line must name them, once.")
            reader.fieldnames = names
            yield dict.fromkeys(names, "")
            yield from reader
    except UnicodeDecodeError:
        raise OptionError(f"`{path}` is not a CSV file in UTF-8.") from None
    except csv.Error as error:
        raise OptionError(f"`{path}` is not a CSV file: {error}.") from None
