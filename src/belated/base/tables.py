"""`Table`: the base class of all results, with text, Markdown, HTML, CSV, JSON and dataframes."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike

from belated.base import text
from belated.base.columns import Array
from belated.base.documents import csv_text, fill, table_text
from belated.base.errors import MissingLibraryError
from belated.base.text import Unit, columns_of, pad_left, pad_right, shorten_all

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: How the values of a column are written: "sentence" is text of any length, "number" has four digits, "statistic" two
#: decimals, the digits of an "estimate" follow those of its standard error, a "limit" of its interval is the same but
#: rounded to 0 only if it is 0, and a "change" is in percent, likewise.
CellKind = Literal[
    "label", "sentence", "count", "share", "number", "statistic", "p_value", "estimate", "limit", "change"
]

#: The least and the largest value that a quantity can have.
Range: TypeAlias = tuple[float, float]

#: The range of a number, of a rate, and of the difference of two rates.
RANGES: dict[Unit, Range] = {"number": (-math.inf, math.inf), "percent": (0.0, 1.0), "points": (-1.0, 1.0)}

#: Rows shown of a long table: this many from either end.
_END_ROWS = 12

#: The width of a screen in characters if it is unknown, and the smallest width assumed.
_USUAL_SCREEN, _LEAST_SCREEN = 120, 40

#: The most columns that a label takes, and how far labels are shortened if the screen is narrow.
_LABEL, _SHORT_LABEL, _SHORTEST_LABEL = 60, 24, 9

#: Heads up to this many characters stay on one line.
_SHORT_HEAD = 7

#: What stands between the parts of a label, such as the arms of a contrast.
_SEPARATOR = " - "

_WRITERS: dict[CellKind, Callable[[object], str]] = {
    "sentence": lambda value: text.NOTHING if value is None else text.one_line(value, longest=2000),
    "count": text.count_text,
    "share": text.share_text,
    "number": text.number_text,
    "statistic": text.statistic_text,
    "p_value": text.p_value_text,
}


@dataclass(frozen=True)
class Column:
    """A named column; `kind` decides the format of its values.

    An "estimate", a "limit" and a "change" need the standard errors of their values, `errors`.

    Attributes
    ----------
    unit : str
        The unit in which an "estimate", a "limit" or a "number" is shown, or one unit per row; the values are not
        converted.
    terse : bool
        Whether the word "points" is left out, as another column of the row has it.
    shown : sequence, optional
        The values that people see in place of `values`, which data formats keep.
    parts : sequence of tuples, optional
        What each label is made of, such as the arms of a contrast: each is shortened, so that all of them are shown.
    """

    name: str
    values: Sequence[object]
    kind: CellKind
    errors: Sequence[float | None] | None = None
    unit: Unit | Sequence[Unit] = "number"
    terse: bool = False
    shown: Sequence[object] | None = None
    parts: Sequence[tuple[object, ...]] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column reads from the left."""
        return self.kind in ("label", "sentence")

    @property
    def style(self) -> str:
        """How the column is aligned, in HTML."""
        return f"text-align: {'left' if self.is_text else 'right'}"

    def texts(self, room: int | None = None) -> list[str]:
        """Return the values as people read them; labels take at most `room` columns of a screen."""
        if self.kind == "label":
            return self._labels(self.room(_LABEL) if room is None else room)
        if self.kind in ("estimate", "limit", "change"):
            if self.errors is None:
                raise TypeError(f"The column {self.name!r} of estimates has no standard errors.")
            both = zip(self.values if self.shown is None else self.shown, self.errors, strict=True)
            if self.kind == "change":
                return [text.change_text(value, error) for value, error in both]
            write = text.limit_text if self.kind == "limit" else text.estimate_text
            texts = [write(*pair, unit) for pair, unit in zip(both, self._units, strict=True)]
            return texts if self.terse else [text.with_unit(*pair) for pair in zip(texts, self._units, strict=True)]
        if self.kind == "number" and self.unit != "number":
            pairs = zip(self.values, self._units, strict=True)
            return [text.NOTHING if x is None else text.in_unit(text.as_number(x), unit) for x, unit in pairs]
        return [_WRITERS[self.kind](value) for value in self.values]

    @property
    def _units(self) -> list[Unit]:
        return [self.unit] * len(self.values) if isinstance(self.unit, str) else list(self.unit)

    @property
    def _most_parts(self) -> int:
        return max(map(len, self.parts or ()), default=1)

    def room(self, each: int) -> int:
        """Return the room of a label whose parts have so much each."""
        return (each + len(_SEPARATOR)) * self._most_parts - len(_SEPARATOR)

    def _labels(self, room: int) -> list[str]:
        if self.parts is None:
            return shorten_all(map(_label, self.values), room)
        pieces = list(dict.fromkeys(_label(piece) for parts in self.parts for piece in parts))
        each = (room + len(_SEPARATOR)) // self._most_parts - len(_SEPARATOR)
        short = dict(zip(pieces, shorten_all(pieces, each), strict=True))
        return [_SEPARATOR.join(short[_label(piece)] for piece in parts) for parts in self.parts]

    def data(self) -> Sequence[object] | Array:
        """Return the values as one type."""
        types = {type(value) for value in self.values}
        if types & {np.datetime64, np.timedelta64}:
            return _times(self.values)
        if self.kind == "label" and (len(types) > 1 or types - {str, int, float, bool}):
            return list(map(str, self.values))
        return self.values


class Table:
    """A mixin for results: a class with `_title` and `_columns` can be printed and converted to every format."""

    def _title(self) -> str:
        raise NotImplementedError

    def _columns(self) -> list[Column]:
        raise NotImplementedError

    def _notes(self) -> list[str]:
        """The notes below the table."""
        return []

    def __repr__(self) -> str:
        return self.to_text()

    def __str__(self) -> str:
        return text.for_stdout(repr(self))

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_text(self, *, every: bool = False) -> str:
        """Return the table as text for a terminal; the middle of a long table is left out unless `every` is True.

        A table that is wider than the terminal has shorter labels, and then its last columns below the first.
        """
        return "\n".join([text.printable(self._title()), *_lines(self._columns(), every=every), *self._notes()])

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        columns = self._columns()
        cells = [[markdown(column.name), *map(markdown, column.texts())] for column in columns]
        rule = [":--" if column.is_text else "--:" for column in columns]
        rows = [list(row) for row in zip(*cells, strict=True)]
        lines = [f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]]]
        notes = [line for note in self._notes() for line in ("", markdown(note))]
        return "\n".join([markdown(text.printable(self._title())), "", *lines, *notes])

    def to_html(self) -> str:
        """Return the table as HTML; labels are escaped."""
        columns = self._columns()
        table = ElementTree.Element("table", {"class": "belated"})
        fill(ElementTree.SubElement(table, "caption"), text.one_line(self._title(), longest=500))
        head = ElementTree.SubElement(ElementTree.SubElement(table, "thead"), "tr")
        body = ElementTree.SubElement(table, "tbody")
        for column in columns:
            ElementTree.SubElement(head, "th", {"scope": "col", "style": column.style}).text = column.name
        for row in zip(*(column.texts() for column in columns), strict=True):
            line = ElementTree.SubElement(body, "tr")
            for column, cell in zip(columns, row, strict=True):
                fill(ElementTree.SubElement(line, "td", {"style": column.style}), cell)
        if self._notes():
            foot = ElementTree.SubElement(ElementTree.SubElement(table, "tfoot"), "tr")
            wide = ElementTree.SubElement(foot, "td", {"colspan": str(len(columns)), "style": "text-align: left"})
            fill(wide, " ".join(self._notes()))
        return ElementTree.tostring(table, encoding="unicode", method="html")

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns of the table by name, unrounded."""
        return self._unrounded()

    def _unrounded(self) -> dict[str, list[object]]:
        return {column.name: list(column.values) for column in self._columns()}

    def to_csv(self) -> str:
        """Return the table as CSV, unrounded; labels are safe for terminals and spreadsheets.

        In them, characters that are not printable are written as their escapes, and an apostrophe stands before what
        begins with =, +, - or @.
        """
        return csv_text(self._unrounded())

    def to_json(self) -> str:
        """Return the table as JSON with a list of `rows`, unrounded, with null for NaN and infinity."""
        return table_text(self._unrounded())

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas dataframe."""
        return _library("pandas").DataFrame(self._data())

    def to_polars(self) -> polars.DataFrame:
        """Return the table as a polars dataframe."""
        frame: polars.DataFrame = _library("polars").DataFrame(self._data())
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Return the table as a pyarrow table."""
        return _library("pyarrow").table(self._data())

    def _data(self) -> dict[str, Sequence[object] | Array]:
        """Return the columns for dataframe libraries, each of one type."""
        return {column.name: column.data() for column in self._columns()}


class OneRow(Table):
    """A table of one row; JSON and dataframes have the values that `_names` lists, which may be more than it prints."""

    def _names(self) -> tuple[str, ...]:
        """Return the names of the values, which are attributes."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        return {name: getattr(self, name) for name in self._names()}

    def _data(self) -> dict[str, Sequence[object] | Array]:
        return {name: _times([value]) for name, value in self.to_dict().items()}

    def to_json(self) -> str:
        """Return the values as JSON with one of `rows`, unrounded, with null for NaN and infinity."""
        return table_text(self._data())


# ---------------------------------------------------------------- text


class _Block:
    """Columns of a table as text: the lines of their heads, their cells, and how wide each is."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = list(columns)
        self.heads = [[column.name] for column in columns]
        self.cells = [column.texts() for column in columns]

    @property
    def widths(self) -> list[int]:
        """How many columns of a screen each column takes."""
        return [max(map(columns_of, (*h, *c)), default=0) for h, c in zip(self.heads, self.cells, strict=True)]

    @property
    def width(self) -> int:
        """How many columns of a screen all take."""
        return sum(self.widths) + 2 * (len(self.columns) - 1)

    def shorten_labels(self, screen: int, least: int) -> None:
        """Shorten the labels, the widest first, as far as the screen asks for it and `least` allows."""
        labels = [k for k, column in enumerate(self.columns) if column.kind == "label"]
        for k in sorted(labels, key=lambda k: -self.widths[k]):
            column = self.columns[k]
            room = max(self.widths[k] - max(self.width - screen, 0), column.room(least), columns_of(column.name))
            if room < self.widths[k]:
                self.cells[k] = column.texts(room)

    def break_heads(self) -> None:
        """Write the heads that are wider than their cells on two lines."""
        for k, column in enumerate(self.columns):
            words = column.name.split("_")
            breaks = [("_".join(words[:i]), "_".join(words[i:])) for i in range(1, len(words))]
            needed = max([_SHORT_HEAD, *map(columns_of, self.cells[k])])
            if breaks and columns_of(column.name) > needed:
                self.heads[k] = list(min(breaks, key=lambda lines: max(map(len, lines))))

    def groups(self, screen: int) -> list[list[int]]:
        """Return groups of columns that fit the screen: the columns that name a row, with as many others as fit."""
        leading = list(takewhile(lambda column: column.kind in ("label", "count"), self.columns))
        labels = [k for k, column in enumerate(leading) if column.kind == "label"]
        first = labels[-1] + 1 if labels else 1
        keys = list(range(first))
        groups, room = [keys], screen - sum(self.widths[k] + 2 for k in keys)
        left = room
        for k in range(first, len(self.columns)):
            if self.widths[k] > left and groups[-1] != keys:
                groups.append(keys)
                left = room
            groups[-1] = [*groups[-1], k]
            left -= self.widths[k] + 2
        return groups

    def lines(self, group: Sequence[int], *, every: bool) -> list[str]:
        """Return the lines of some columns."""
        deep = max(len(self.heads[k]) for k in group)
        heads = [[""] * (deep - len(self.heads[k])) + self.heads[k] for k in group]
        widths = self.widths

        def line(cells: Sequence[str]) -> str:
            aligned = (
                pad_right(cell, widths[k]) if self.columns[k].is_text else pad_left(cell, widths[k])
                for k, cell in zip(group, cells, strict=True)
            )
            return "  ".join(aligned).rstrip()

        rows = [line(row) for row in zip(*(self.cells[k] for k in group), strict=True)]
        hidden = 0 if every else len(rows) - 2 * _END_ROWS
        if hidden > 1:
            rows = [*rows[:_END_ROWS], f"... {hidden:,} more rows ...", *rows[-_END_ROWS:]]
        return [*map(line, zip(*heads, strict=True)), *rows]


def screen_width() -> int:
    """Return how many columns the terminal has."""
    return max(shutil.get_terminal_size((_USUAL_SCREEN, 24)).columns, _LEAST_SCREEN)


def _lines(columns: Sequence[Column], *, every: bool) -> list[str]:
    """Return a table's lines, no wider than the screen: with shorter labels, higher heads, or its columns in groups."""
    if not columns:
        return []
    screen, block = screen_width(), _Block(columns)
    steps: tuple[Callable[[], None], ...] = (
        lambda: block.shorten_labels(screen, _SHORT_LABEL),
        block.break_heads,
        lambda: block.shorten_labels(screen, _SHORTEST_LABEL),
    )
    for step in steps:
        if block.width > screen:
            step()
    groups = block.groups(screen) if block.width > screen else [list(range(len(columns)))]
    lines: list[str] = []
    for group in groups:
        lines += ["", *block.lines(group, every=every)] if lines else block.lines(group, every=every)
    return lines


# ---------------------------------------------------------------- libraries and labels


def _library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise MissingLibraryError(f"{name} is not installed; run `pip install {name}`.") from None


def _label(value: object) -> str:
    if isinstance(value, np.datetime64):
        return text.moment_text(value)
    return text.visible(value)


#: How a line begins that Markdown takes for a heading or an item of a list.
_LIST_OR_HEADING = re.compile(r"^(\s*\d*)([#+.)-])(?=[#\s]|$)")


def markdown(words: str) -> str:
    """Return text that Markdown shows as it is."""
    for character in "\\`*_|<>[]&~$":
        words = words.replace(character, "\\" + character)
    return _LIST_OR_HEADING.sub(r"\1\\\2", words)


def _times(values: Sequence[object]) -> Sequence[object] | Array:
    """Return values as they are, and times as an array in a unit that dataframe libraries have."""
    if not any(isinstance(value, (np.datetime64, np.timedelta64)) for value in values):
        return values
    array = np.array(values)
    return array.astype(f"{array.dtype.kind}8[us]") if np.datetime_data(array.dtype)[0] != "ns" else array


# ---------------------------------------------------------------- limits of rates


def shown_limit(limit: ArrayLike, estimate: ArrayLike, possible: Range) -> Array:
    """Return limits of intervals to show, cut at the range of what is possible, or at an estimate that is beyond it.

    Examples
    --------
    >>> shown_limit([-8.0, 0.2, 1.3], [0.9, 0.5, 1.1], RANGES["percent"]).tolist()
    [0.0, 0.2, 1.1]
    """
    least, most = possible
    return np.asarray(np.clip(np.asarray(limit, float), np.fmin(least, estimate), np.fmax(most, estimate)))
