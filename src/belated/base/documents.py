"""Documents as text: JSON, whose schemas have versions; CSV; HTML pages from templates."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Literal

import numpy as np

from belated.base.text import printable
from belated.base.version import __version__

#: The kinds of JSON documents.
Document = Literal["analysis", "diagnosis", "plan", "sensitivity", "study"]

#: How cells begin that spreadsheets compute; full-width signs count as the plain ones in some.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")

#: What is a number, and no formula.
_NUMBER = r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"

#: The schema of each kind of document, as docs/json.md has it: raised when a name or a meaning changes, not when
#: names are added.
SCHEMAS: dict[Document, int] = {"analysis": 1, "diagnosis": 1, "plan": 1, "sensitivity": 1, "study": 1}


# ---------------------------------------------------------------- JSON


def json_text(kind: Document, content: Mapping[str, object]) -> str:
    """Return a document as JSON text, beginning with the version and the schema; what is not finite is null."""
    about = {"belated": __version__, "schema": SCHEMAS[kind]}
    return json.dumps(plain(about | dict(content)), indent=1, default=str, allow_nan=False)


def rows_text(columns: Mapping[str, Iterable[object]]) -> str:
    """Return columns as a JSON list of rows; what is not finite is null."""
    return json.dumps(json_rows(columns), indent=1, default=str, allow_nan=False)


def json_rows(columns: Mapping[str, Iterable[object]]) -> list[dict[str, object]]:
    """Return columns as rows of values that JSON has."""
    return [dict(zip(columns, map(plain, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def plain(value: object) -> object:
    """Return a value as JSON has it: keys are text, NumPy's numbers Python's, and what is not finite is None."""
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


def csv_text(columns: Mapping[str, Iterable[object]], *, as_written: bool = False) -> str:
    """Return columns as CSV; None is an empty field.

    It can be shown on terminals and opened in spreadsheets whatever the labels are: in text, characters that are not
    printable are written as their escapes, and an apostrophe stands before what could be a formula. With `as_written`
    text is as it is, to be read again.
    """
    lines: list[str] = []
    writer = csv.writer(SimpleNamespace(write=lines.append))  # it quotes only what is in its own ends of lines, \r\n
    write = _as_it_is if as_written else _harmless
    writer.writerow(map(write, columns))
    writer.writerows(map(write, row) for row in zip(*columns.values(), strict=True))
    return "".join(f"{line.removesuffix(writer.dialect.lineterminator)}\n" for line in lines)


def _as_it_is(value: object) -> object:
    return value


def _harmless(value: object) -> object:
    """Return text that no terminal obeys and no spreadsheet computes; numbers and what is missing as they are."""
    if value is None or isinstance(value, (bool, int, float, np.number, np.bool_)):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) and not re.fullmatch(_NUMBER, text) else text


# ---------------------------------------------------------------- HTML


def page(package: str, template: str, /, **values: object) -> str:
    """Return a template, from a package's folder ``templates``, filled with values, which are escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template).render(**values)
