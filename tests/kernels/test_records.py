"""Rows of PostgreSQL's binary COPY, against rows that `struct` packs."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from belated.kernels import records
from belated.kernels.compiler import compiled

TRAILER = b"\xff\xff"


def packed(rows):
    """Return rows of whole numbers, texts and nulls as COPY sends them."""
    parts = []
    for row in rows:
        parts.append(struct.pack("!h", len(row)))
        for value in row:
            data = b"" if value is None else struct.pack("!i", value) if isinstance(value, int) else value.encode()
            parts.append(struct.pack("!i", -1 if value is None else len(data)) + data)
    return np.frombuffer(b"head" + b"".join(parts) + TRAILER, np.uint8)


@pytest.mark.parametrize("way", ["plain", "compiled"])
def test_numbers_texts_and_nulls_come_back(way):
    take_fields, take_texts = (getattr(f, "py_func", f) for f in (records.take_fields, records.take_texts))
    if way == "compiled":
        take_fields, take_texts = compiled(take_fields), compiled(take_texts)
    rows = [(7, "é"), (None, ""), (-3, None), (2**31 - 1, "abc")]
    raw, is_text = packed(rows), np.array([False, True])
    values, sizes = np.zeros((2, 9, 8), np.uint8), np.zeros((2, 9), np.int64)
    assert take_fields(raw, 4, is_text, values, sizes) == len(rows)
    assert sizes[:, :4].tolist() == [[4, -1, 4, 4], [2, 0, -1, 3]]
    numbers = values[0, :4, 4:].copy().view(">i4").ravel()
    assert numbers[sizes[0, :4] > 0].tolist() == [7, -3, 2**31 - 1]
    places, lengths = values[1, :4].copy().view(">i8").ravel().astype(np.int64), np.maximum(sizes[1, :4], 0)
    texts = np.zeros(lengths.sum(), np.uint8)
    take_texts(raw, places, lengths, texts)
    assert texts.tobytes().decode() == "éabc"


def test_no_rows():
    values, sizes = np.zeros((1, 1, 8), np.uint8), np.zeros((1, 1), np.int64)
    assert records.take_fields(packed([]), 4, np.array([False]), values, sizes) == 0
