"""Dataframes, to Arrow."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from belated.base.errors import LogError, OptionError
from belated.base.text import one_line
from belated.reading.sentences import first_line

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa


def arrow_table(frame: Any, role: str) -> pa.Table:
    """Return a dataframe of any library that Narwhals knows as an Arrow table; errors call it `role`."""
    import narwhals as nw
    import pyarrow as pa

    names = [] if hasattr(frame, "collect") else list(map(str, getattr(frame, "columns", ())))
    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        frame = pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
        names = frame.column_names
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise LogError(f"The dataframe has several columns named {one_line(repr(twice))}; each must have its own name.")
    if isinstance(frame, pa.Table):
        return frame
    try:
        native = nw.from_native(frame)
        return (native.collect() if isinstance(native, nw.LazyFrame) else native).to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _mixed(native, error) from None
    except TypeError:
        raise OptionError(
            f"`{role}` is a {type(frame).__name__}; it must be a path, a dataframe or an Ibis table."
        ) from None


def _mixed(frame: nw.DataFrame[Any], error: BaseException) -> LogError:
    """Return which value of a dataframe's column is unlike the others."""
    failed = re.search(r"Conversion failed for column (.*) with type", str(error), re.DOTALL)
    if failed is not None and failed[1] in frame.columns:
        values = [(row, value) for row, value in enumerate(frame[failed[1]].to_list()) if value is not None]
        usual = Counter(type(value) for _, value in values if value == value).most_common(1)[0][0]
        row, value = next(((r, v) for r, v in values if type(v) is not usual and v == v), values[0])
        return LogError(
            f"Column {one_line(repr(failed[1]))} in row {row} is {one_line(repr(value))}; it must be of type "
            f"{usual.__name__}, as most of the column is.",
            row=row,
        )
    return LogError(f"The dataframe cannot be read: {first_line(error)}")
