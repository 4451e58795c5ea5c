"""One table for everything people see: text, Markdown, HTML, and the data behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

import numpy as np

from belated.base import text
from belated.base.columns import Array
from belated.base.documents import csv_text, rows_text
from belated.base.errors import MissingLibraryError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: How the values of a column are written: "sentence" is text of any length, "number" has four digits, "statistic" two
#: decimals, the digits of an "estimate" follow those of its standard error, and a "change" is in percent, likewise.
CellKind = Literal["label", "sentence", "count", "share", "number", "statistic", "p_value", "estimate", "change"]

#: Rows shown of a long table: this many from either end.
_ENDS = 12

_WRITERS: dict[CellKind, Callable[[object], str]] = {
    "sentence": lambda value: text.one_line(value, longest=2000),
    "count": text.count_text,
    "share": text.share_text,
    "number": text.number_text,
    "statistic": text.statistic_text,
    "p_value": text.p_value_text,
}


@dataclass(frozen=True)
class Column:
    """A named column; `kind` says how its values are written.

    An "estimate" and a "change" need the standard errors of their values, `errors`.
    """

    name: str
    values: Sequence[object]
    kind: CellKind
    errors: Sequence[float | None] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column reads from the left."""
        return self.kind in ("label", "sentence")

    @property
    def style(self) -> str:
        """How the column is aligned, in HTML."""
        return f"text-align: {'left' if self.is_text else 'right'}"

    def texts(self) -> list[str]:
        """Return the values as people read them."""
        if self.kind == "label":
            return [_label(value) for value in self.values]
        if self.kind in ("estimate", "change"):
            if self.errors is None:
                raise TypeError(f"The column {self.name!r} of estimates has no standard errors.")
            write = text.estimate_text if self.kind == "estimate" else text.change_text
            return [write(v, e) for v, e in zip(self.values, self.errors, strict=True)]
        return [_WRITERS[self.kind](value) for value in self.values]

    def data(self) -> Sequence[object] | Array:
        """Return the values as one type."""
        values = self.values
        if any(isinstance(value, (np.datetime64, np.timedelta64)) for value in values):
            array = np.array(values)
            return array.astype(f"{array.dtype.kind}8[us]") if np.datetime_data(array.dtype)[0] != "ns" else array
        types = {type(value) for value in values}
        if self.kind == "label" and (len(types) > 1 or types - {str, int, float, bool}):
            return list(map(str, values))
        return values


class Table:
    """Mixin: a class that says its `_title` and `_columns` can be shown and taken everywhere."""

    def _title(self) -> str:
        raise NotImplementedError

    def _columns(self) -> list[Column]:
        raise NotImplementedError

    def _notes(self) -> list[str]:
        """What to keep in mind when reading the table, shown below it."""
        return []

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_text(self, *, every: bool = False) -> str:
        """Return the table as text for a terminal; a long one's middle is left out unless `every` row is asked for."""
        columns = self._columns()
        cells = [[column.name, *column.texts()] for column in columns]
        widths = [max(map(len, texts)) for texts in cells]
        lines = [self._title()]
        rows = list(zip(*cells, strict=True))
        hidden = 0 if every else len(rows) - 1 - 2 * _ENDS
        for i, row in enumerate(rows):
            if hidden > 1 and i == _ENDS + 1:
                lines.append(f"... {hidden:,} more rows ...")
            if hidden > 1 and _ENDS < i <= _ENDS + hidden:
                continue
            aligned = [
                cell.ljust(width) if column.kind == "label" else cell.rjust(width)
                for column, cell, width in zip(columns, row, widths, strict=True)
            ]
            lines.append("  ".join(aligned).rstrip())
        return "\n".join([*lines, *self._notes()])

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        columns = self._columns()
        cells = [[_markdown(column.name), *map(_markdown, column.texts())] for column in columns]
        rule = [":--" if column.is_text else "--:" for column in columns]
        rows = [list(row) for row in zip(*cells, strict=True)]
        lines = [f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]]]
        notes = [line for note in self._notes() for line in ("", _markdown(note))]
        return "\n".join([_markdown(self._title()), "", *lines, *notes])

    def to_html(self) -> str:
        """Return the table as HTML; labels are escaped."""
        columns = self._columns()
        table = ElementTree.Element("table", {"class": "belated"})
        ElementTree.SubElement(table, "caption").text = text.one_line(self._title(), longest=500)
        head = ElementTree.SubElement(ElementTree.SubElement(table, "thead"), "tr")
        body = ElementTree.SubElement(table, "tbody")
        for column in columns:
            ElementTree.SubElement(head, "th", {"scope": "col", "style": column.style}).text = column.name
        for row in zip(*(column.texts() for column in columns), strict=True):
            line = ElementTree.SubElement(body, "tr")
            for column, cell in zip(columns, row, strict=True):
                ElementTree.SubElement(line, "td", {"style": column.style}).text = cell
        if self._notes():
            foot = ElementTree.SubElement(ElementTree.SubElement(table, "tfoot"), "tr")
            wide = ElementTree.SubElement(foot, "td", {"colspan": str(len(columns)), "style": "text-align: left"})
            wide.text = " ".join(self._notes())
        return ElementTree.tostring(table, encoding="unicode", method="html")

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the table's columns, unrounded."""
        return {column.name: list(column.values) for column in self._columns()}

    def to_csv(self) -> str:
        """Return the table's columns as CSV, unrounded; labels are made harmless to terminals and spreadsheets.

        In them, characters that are not printable are written as their escapes, and an apostrophe stands before what
        begins with =, +, - or @.
        """
        return csv_text(self.to_dict())

    def to_json(self) -> str:
        """Return the table's rows as JSON, unrounded; what is not finite is null."""
        return rows_text(self.to_dict())

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
        """Return the columns as dataframe libraries take them: each of one type."""
        return {column.name: column.data() for column in self._columns()}


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingLibraryError(f"{name} is not installed; `pip install {name}` brings it.") from None


def _label(value: object) -> str:
    return text.moment_text(value) if isinstance(value, np.datetime64) else text.one_line(value)


def _markdown(words: str) -> str:
    for character in "\\`*_|<>[]":
        words = words.replace(character, "\\" + character)
    return words
