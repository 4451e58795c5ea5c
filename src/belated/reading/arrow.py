"""Arrow columns, to numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from belated.base.columns import Array
from belated.log.clock import NEVER, Clock

if TYPE_CHECKING:
    import pyarrow as pa


def floats(column: pa.Array | pa.ChunkedArray) -> Array:
    """Return an Arrow column of floats; null is NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def clock_times(column: pa.Array, clock: Clock) -> Array:
    """Return Arrow times as numbers of a clock; null is NEVER or NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if clock.unit is None and not clock.whole:
        return floats(column.cast("float64"))
    numbers = (column if clock.unit is None else column.cast(pa.timestamp(clock.unit))).cast("int64")
    if numbers.null_count:
        numbers = pc.fill_null(numbers, NEVER)
    return np.asarray(numbers.to_numpy(zero_copy_only=False))
