"""What engines say when something is wrong, as one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from belated.base.errors import BelatedError, LogError
from belated.base.text import one_line
from belated.reading.engines import PACKAGES

#: What engines say of files that are not what they are named, and what that means.
_MEANINGS = {
    "No magic bytes|too small to be a Parquet": "it is not a Parquet file, or not all of it.",
    "not a valid DuckDB database": "it is not a DuckDB database.",
    "Could not read enough bytes": "a part of it is missing.",
    "Could not set lock": "another program has it open to write in it; close that first.",
    "Could not open IPC|Not an Arrow file|Invalid IPC": "it is not an Arrow file, or not all of it.",
    "not a GZIP stream|end of GZIP stream": "it is not a GZIP file, or not all of it.",
    "not utf-8 encoded|Set the correct encoding": "it is not text in UTF-8; save it as such.",
    "Permission denied": "that is not permitted.",
}

#: DuckDB's types, in words.
_TYPES = {"DOUBLE": "a number", "BIGINT": "a whole number", "TIMESTAMP": "a time", "DATE": "a date"}


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn what an engine says about a table into one sentence."""
    try:
        yield
    except BelatedError:
        raise
    except (MemoryError, KeyboardInterrupt):
        raise
    except UnicodeEncodeError as error:
        raise LogError(f"`{name}` has {one_line(repr(error.object))} in it, which is not text.") from error
    except Exception as error:
        if "interrupted" in str(error).lower() and type(error).__name__ in ("RuntimeError", "InterruptException"):
            raise KeyboardInterrupt from None  # DuckDB's word for it
        if not _is_engines(error):
            raise
        raise LogError(f"`{name}` cannot be read: {_meaning(error)}") from error


def first_line(error: BaseException) -> str:
    """Return what an engine says, without its own names, folders and advice."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    text = re.sub(r"^([A-Z]\w* )+Error: |reading the stream registered as '\w+' failed: ", "", text)
    text = re.sub(r"(?<![\w:/])/(?:[^/\"'\s]+/)+|\s*See also http\S+", "", text.split(" (LINE")[0])
    return one_line(text.strip(), 300).rstrip(".!") + "."


def _is_engines(error: BaseException) -> bool:
    """Whether an exception was raised by an engine or a reader of files, not by a mistake of ours."""
    packages = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return not packages.isdisjoint(PACKAGES) or isinstance(error, OSError)


def _meaning(error: BaseException) -> str:
    """Return what an engine's words mean."""
    text = str(error)
    if type(error).__name__ == "TableNotFound":
        return "it is a view of what is not there."
    for pattern, meaning in _MEANINGS.items():
        if re.search(pattern, text):
            return meaning
    if unlike := re.search(r"Error when sniffing file \"(.*)\"\.\n", text):
        from belated.reading.csv_files import csv_fault

        return csv_fault(unlike[1])
    if line := re.search(r"CSV Error on Line: (\d+)", text):
        return _line_fault(text, f"line {int(line[1]):,}")
    return first_line(error)


def _line_fault(text: str, where: str) -> str:
    """Return what is wrong with a line of a CSV file."""
    value = re.search(r"Could not convert string \"(.*?)\" to '?(\w+)", text, re.DOTALL)
    column = re.search(r"Error when converting column \"(.*?)\"", text, re.DOTALL)
    if value and column:
        expected = _TYPES.get(value[2], f"of type {value[2]}")
        return (
            f"{where} has {one_line(repr(value[1]))} in column {one_line(repr(column[1]))}, where {expected} must be."
        )
    what = next((part.strip() for part in text.splitlines()[2:] if part.strip()), "")
    return f"{where} is not like the others: {one_line(what or text.splitlines()[0], 200).rstrip('.')}."
