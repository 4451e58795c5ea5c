"""One table for everything people see: text, Markdown, HTML, and the data behind it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import numpy as np

from belated.base.errors import MissingLibraryError
from belated.base.files import csv_text

#: Rows shown of a long table: this many from either end.
_ENDS = 12


@dataclass(frozen=True)
class Column:
    """A named column; `kind` says how its values are written.

    Kinds: "label", "sentence" (of any length), "count", "share", "number" (four digits), "statistic" (two decimals),
    "p_value", and "estimate", whose digits follow those of the standard errors in `errors`.
    """

    name: str
    values: list[Any]
    kind: str
    errors: list[float] | None = None

    @property
    def style(self) -> str:
        """How the column is aligned, in HTML."""
        return "text-align: left" if self.kind in ("label", "sentence") else "text-align: right"

    def texts(self) -> list[str]:
        """Return the values as people read them."""
        if self.kind == "label":
            return [moment_text(v) if isinstance(v, np.datetime64) else one_line(v) for v in self.values]
        if self.kind == "sentence":
            return [one_line(value, longest=2000) for value in self.values]
        if self.kind == "estimate" and self.errors is not None:
            return [_estimate(v, e) for v, e in zip(self.values, self.errors, strict=True)]
        writers = {"count": _count, "share": _share, "number": _number, "statistic": _statistic, "p_value": _p_value}
        return [writers[self.kind](value) for value in self.values]

    def data(self) -> Any:
        """Return the values as one type."""
        values = self.values
        if any(isinstance(value, (np.datetime64, np.timedelta64)) for value in values):
            array = np.array(values)
            return array.astype(f"{array.dtype.kind}8[us]") if np.datetime_data(array.dtype)[0] != "ns" else array
        if self.kind == "label" and len({type(value) for value in values} - {str, int, float, bool}) == 0:
            return values if len({type(value) for value in values}) == 1 else list(map(str, values))
        return list(map(str, values)) if self.kind == "label" else values


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
                text.ljust(width) if column.kind == "label" else text.rjust(width)
                for column, text, width in zip(columns, row, widths, strict=True)
            ]
            lines.append("  ".join(aligned).rstrip())
        return "\n".join([*lines, *self._notes()])

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        columns = self._columns()
        cells = [[_markdown(column.name), *map(_markdown, column.texts())] for column in columns]
        rule = [":--" if column.kind in ("label", "sentence") else "--:" for column in columns]
        rows = [list(row) for row in zip(*cells, strict=True)]
        lines = [f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]]]
        notes = [line for note in self._notes() for line in ("", _markdown(note))]
        return "\n".join([_markdown(self._title()), "", *lines, *notes])

    def to_html(self) -> str:
        """Return the table as HTML; labels are escaped."""
        columns = self._columns()
        table = ElementTree.Element("table", {"class": "belated"})
        ElementTree.SubElement(table, "caption").text = one_line(self._title(), longest=500)
        head = ElementTree.SubElement(ElementTree.SubElement(table, "thead"), "tr")
        body = ElementTree.SubElement(table, "tbody")
        for column in columns:
            ElementTree.SubElement(head, "th", {"scope": "col", "style": column.style}).text = column.name
        for row in zip(*(column.texts() for column in columns), strict=True):
            line = ElementTree.SubElement(body, "tr")
            for column, text in zip(columns, row, strict=True):
                ElementTree.SubElement(line, "td", {"style": column.style}).text = text
        if self._notes():
            foot = ElementTree.SubElement(ElementTree.SubElement(table, "tfoot"), "tr")
            cell = ElementTree.SubElement(foot, "td", {"colspan": str(len(columns)), "style": "text-align: left"})
            cell.text = " ".join(self._notes())
        return ElementTree.tostring(table, encoding="unicode", method="html")

    def to_dict(self) -> dict[str, Any]:
        """Return the table's columns, unrounded."""
        return {column.name: list(column.values) for column in self._columns()}

    def to_csv(self) -> str:
        """Return the table's columns as CSV, unrounded."""
        return csv_text(self.to_dict())

    def to_json(self) -> str:
        """Return the table's rows as JSON, unrounded; what is not finite is null."""
        columns = self.to_dict()
        rows = [dict(zip(columns, map(_json, row), strict=True)) for row in zip(*columns.values(), strict=True)]
        return json.dumps(rows, indent=1, default=str)

    def to_pandas(self) -> Any:
        """Return the table as a pandas dataframe."""
        return _library("pandas").DataFrame(self._data())

    def to_polars(self) -> Any:
        """Return the table as a polars dataframe."""
        return _library("polars").DataFrame(self._data())

    def to_arrow(self) -> Any:
        """Return the table as a pyarrow table."""
        return _library("pyarrow").table(self._data())

    def _data(self) -> dict[str, Any]:
        """Return the columns as dataframe libraries take them: each of one type."""
        return {column.name: column.data() for column in self._columns()}


def _json(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingLibraryError(f"{name} is not installed; `pip install {name}` brings it.") from None


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the right number."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(level: float) -> str:
    """Return a level as people say it."""
    return f"{100 * level:.6g}%"


def one_line(value: Any, longest: int = 60) -> str:
    """Return a label on one line of bearable length, without control characters."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _markdown(text: str) -> str:
    for character in "\\`*_|<>[]":
        text = text.replace(character, "\\" + character)
    return text


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and math.isnan(value))


def _count(value: Any) -> str:
    return "–" if _missing(value) else f"{value:,.0f}"


def _share(value: Any) -> str:
    return "–" if _missing(value) else f"{value:.1%}"


def _number(value: Any) -> str:
    if _missing(value) or (isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value)):
        return "–"
    if isinstance(value, np.timedelta64):
        return _duration(value)
    if isinstance(value, np.datetime64):
        return moment_text(value)
    if not isinstance(value, (int, float, np.number)):
        return str(value)
    number = float(value)
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return f"{number:,.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.4g}"


def moment_text(moment: np.datetime64) -> str:
    """Return a moment as short text: a date alone where the time is midnight."""
    text = str(moment).replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(" 00:00:00")


def _statistic(value: Any) -> str:
    return _number(value) if _missing(value) or math.isinf(value) else f"{value:.2f}"


def _duration(value: np.timedelta64) -> str:
    seconds = float(value.astype("timedelta64[ns]").astype(np.int64)) / 1e9
    sizes = [
        (86400.0, "d"),
        (3600.0, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "us"),
    ]
    for size, unit in sizes:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _p_value(value: Any) -> str:
    if _missing(value):
        return "–"
    return "<0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def _estimate(value: Any, error: float) -> str:
    """Write a value to two significant digits of its standard error."""
    if _missing(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if _missing(error) or not math.isfinite(error) or error <= 0:
        return f"{value:.6g}"
    decimals = 1 - math.floor(math.log10(error))
    if decimals > 12 or abs(value) >= 1e15 or error < abs(value) * 1e-13:
        return f"{value:.6g}"
    return f"{round(value, decimals) + 0.0:,.{max(decimals, 0)}f}"
