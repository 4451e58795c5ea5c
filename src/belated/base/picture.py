"""Picture: a matplotlib figure that notebooks show by themselves; imported only when something is drawn."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that a notebook shows when it is the value of a cell: once, without pyplot and without settings."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()
