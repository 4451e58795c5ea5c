"""Packing: arrays as PostgreSQL reads them. psycopg turns a list into the same bytes, in five times the time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from psycopg.adapt import Dumper


class Packed(bytes):
    """An array of values, to be given to psycopg; the statement says its type, such as ``%b::bigint[]``."""


class _PackedType(NamedTuple):
    """A type: its number in PostgreSQL, how a value becomes bytes, and numpy's name of it if it is a number."""

    number: int
    to_bytes: Callable[[Any], bytes]
    dtype: str | None = None


_KINDS = {
    "bytea": _PackedType(17, bytes),
    "bigint": _PackedType(20, struct.Struct(">q").pack, ">i8"),
    "text": _PackedType(25, str.encode),
    "double precision": _PackedType(701, struct.Struct(">d").pack, ">f8"),
}

_MISSING = (-1).to_bytes(4, signed=True)


def pack(kind: str, values: Sequence[object]) -> Packed:
    """Return values, of which some may be None, as an array of a type."""
    number, to_bytes, dtype = _KINDS[kind]
    missing = None in values
    if dtype is not None and not missing:
        numbers = np.empty(len(values), [("size", ">i4"), ("value", dtype)])
        numbers["size"], numbers["value"] = 8, values
        elements = numbers.tobytes()
    else:
        written = [None if value is None else to_bytes(value) for value in values]
        elements = b"".join([_MISSING if each is None else len(each).to_bytes(4) + each for each in written])
    dimensions, lowest_index = 1, 1
    return Packed(struct.pack(">5i", dimensions, missing, number, len(values), lowest_index) + elements)


@lru_cache(maxsize=1)
def dumper() -> type[Dumper]:
    """Return what makes psycopg send packed arrays as they are."""
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class PackedDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: Packed) -> bytes:
            return bytes(obj)

    return PackedDumper
