"""Rows in the binary format of PostgreSQL's COPY: of each row the number of fields, of each field its size and bytes.

Plain Python that numba can compile, as `belated.kernels.rows` is.
"""

from __future__ import annotations

import numpy as np

from belated.base.columns import Array

#: Functions to compile.
KERNELS = ("take_fields", "take_texts")

#: The first byte of the length of a field that is null.
_NULL = 255


def take_fields(raw: Array, start: int, is_text: Array, values: Array, sizes: Array) -> int:
    """Fill `values` and `sizes`, by column and row, from the rows in `raw`; return how many there are.

    A number's bytes are put at the end of eight, a text's place in `raw` is written instead. The size of a null is -1.
    """
    columns = len(is_text)
    position, row, end = start, 0, len(raw)
    while position + 2 <= end and raw[position] != _NULL:
        position += 2
        for column in range(columns):
            size = np.int64(-1)
            if raw[position] != _NULL:
                size = (
                    (np.int64(raw[position]) * 256 + np.int64(raw[position + 1])) * 256 + np.int64(raw[position + 2])
                ) * 256 + np.int64(raw[position + 3])
            position += 4
            sizes[column, row] = size
            if is_text[column]:
                place = position
                for byte in range(8):
                    values[column, row, 7 - byte] = place % 256
                    place //= 256
            else:
                for byte in range(size):
                    values[column, row, 8 - size + byte] = raw[position + byte]
            if size > 0:
                position += int(size)
        row += 1
    return row


def take_texts(raw: Array, places: Array, sizes: Array, texts: Array) -> None:
    """Fill `texts` with the bytes of a column's texts, one after the other."""
    position = 0
    for row in range(len(places)):
        for byte in range(sizes[row]):
            texts[position] = raw[places[row] + byte]
            position += 1
