"""Writing JSON documents with versioned schemas, CSV, and HTML pages from templates."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from xml.etree import ElementTree

import numpy as np

from belated.base.text import by_direction, printable
from belated.base.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: The kinds of JSON documents.
Document = Literal[
    "analysis", "changes", "decision", "diagnosis", "experiments", "live", "plan", "sensitivity", "status", "study",
    "table", "tokens", "verification",
]  # fmt: skip

#: The values of a result by name, or a JSON object that was read. Each name has a type of its own, which only those
#: who ask for it know.
JsonObject: TypeAlias = dict[str, Any]

#: Cells that begin so are formulas in spreadsheets; some treat full-width signs as the plain ones.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")

#: A number, which is not a formula.
_NUMBER = r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"

#: The schema of each kind of document, as docs/json.md has it: raised when a name or a meaning changes, not when
#: names are added.
SCHEMAS: dict[Document, int] = {
    "analysis": 1, "changes": 1, "decision": 1, "diagnosis": 1, "experiments": 1, "live": 1, "plan": 1,
    "sensitivity": 1, "status": 1, "study": 1, "table": 1, "tokens": 1, "verification": 1,
}  # fmt: skip


# ---------------------------------------------------------------- JSON


def json_text(kind: Document, content: Mapping[str, object]) -> str:
    """Return a document as JSON text that begins with version and schema; NaN and infinity become null."""
    return json.dumps(_document(kind, content), indent=1, default=str, allow_nan=False)


def json_line(kind: Document, content: Mapping[str, object]) -> str:
    """Return the same on one line, for output that has a document in each line."""
    return json.dumps(_document(kind, content), default=str, allow_nan=False)


def _document(kind: Document, content: Mapping[str, object]) -> object:
    return plain({"belated": __version__, "schema": SCHEMAS[kind]} | dict(content))


def table_text(columns: Mapping[str, Iterable[object]]) -> str:
    """Return columns as a JSON document with a list of rows."""
    return json_text("table", {"rows": json_rows(columns)})


def json_rows(columns: Mapping[str, Iterable[object]]) -> list[dict[str, object]]:
    """Return columns as a list of rows with values that JSON supports."""
    return [dict(zip(columns, map(plain, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def plain(value: object) -> object:
    """Return a value that JSON supports: keys as text, NumPy numbers as Python's, NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.astype(f"{value.dtype.kind}8[us]")
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------- CSV


class _Lines(list[str]):
    """A list as a file: each written text is appended."""

    write = list[str].append


def csv_text(columns: Mapping[str, Iterable[object]], *, as_written: bool = False) -> str:
    """Return columns as CSV; None is an empty field.

    The result is safe for terminals and spreadsheets: in text, characters that are not printable are escaped, and an
    apostrophe precedes what could be a formula. With `as_written`, text is unchanged, to be read again.
    """
    lines = _Lines()
    writer = csv.writer(lines)  # it quotes \r and \n only if its own line ends are \r\n
    write = _as_it_is if as_written else _harmless
    writer.writerow(map(write, columns))
    writer.writerows(map(write, row) for row in zip(*columns.values(), strict=True))
    return "".join(f"{line.removesuffix(writer.dialect.lineterminator)}\n" for line in lines)


def _as_it_is(value: object) -> object:
    return value


def _harmless(value: object) -> object:
    """Return text that is safe for terminals and spreadsheets; numbers and missing values are unchanged."""
    if value is None or isinstance(value, (bool, int, float, np.number, np.bool_)):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) and not re.fullmatch(_NUMBER, text) else text


# ---------------------------------------------------------------- HTML


def page(package: str, template: str, /, **values: object) -> str:
    """Return a template from a package's folder ``templates``, filled with escaped values."""
    return _templates(package).get_template(template).render(**values)


@cache
def _templates(package: str) -> Environment:
    """Return a package's templates, which are compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters["apart"] = apart
    return made


def apart(words: str) -> Markup:
    """Return a text of a page in which names that are written from right to left are set apart."""
    from markupsafe import Markup

    parts = enumerate(by_direction(words))
    return Markup("").join(Markup("<bdi>{}</bdi>").format(part) if i % 2 else part for i, part in parts)


def fill(element: ElementTree.Element, words: str, tag: str = "bdi", **attributes: str) -> None:
    """Write a text into an element; names that are written from right to left are elements of their own."""
    element.text, *others = by_direction(words)
    for name, after in zip(others[::2], others[1::2], strict=True):
        part = ElementTree.SubElement(element, tag, attributes)
        part.text, part.tail = name, after
