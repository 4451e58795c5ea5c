"""Arrow columns, to numbers."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.columns import Array
from belated.log.clock import NEVER, Clock
from belated.reading.engines import compiled, fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir


#: Rows of one batch of a stream.
BATCH = 1 << 19


def arrow_batches(engine: Any, rows: ir.Table) -> Generator[Any]:
    """Yield record batches; from DuckDB without the copy, and the whole result in memory, that Ibis would make."""
    if engine.name != "duckdb":
        yield from fetch(rows).to_batches()
        return
    relation = engine.con.sql(compiled(rows))
    with (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(BATCH) as reader:
        yield from reader


def floats(column: Any) -> Array:
    """Return an Arrow column of floats; null is NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def clock_times(column: Any, clock: Clock) -> Array:
    """Return Arrow times as numbers of a clock; null is NEVER or NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if clock.unit is None and not clock.whole:
        return floats(column.cast("float64"))
    numbers = (column if clock.unit is None else column.cast(pa.timestamp(clock.unit))).cast("int64")
    if numbers.null_count:
        numbers = pc.fill_null(numbers, NEVER)
    return np.asarray(numbers.to_numpy(zero_copy_only=False))
