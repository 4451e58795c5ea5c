"""Sums as one Ibis expression, for any engine: running means and the history rule included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.backends.recipe import literal, present
from belated.columns import Array
from belated.kernels import rows as kernel
from belated.outcome_models import OutcomeModel
from belated.sums import Sums
from belated.times import Clock
from belated.weights import Weights

if TYPE_CHECKING:
    import ibis.expr.types as ir

_LARGEST = float(np.finfo(np.float64).max)


def chosen(rows: ir.Table, arms: int) -> ir.Column:
    """Return the propensity of each row's own arm; `code` says which that is."""
    if "p" in rows.columns:
        return rows.p
    return rows.code.cases(*((k, rows[f"p{k}"]) for k in range(arms)), else_=None)


def with_codes(rows: ir.Table, values: Sequence[Any]) -> ir.Table:
    """Add `code`, the position of each row's arm among `values`."""
    import ibis

    kind = rows.arm.type()
    cases = ((ibis.literal(value, type=kind), k) for k, value in enumerate(values))
    return rows.mutate(code=rows.arm.cases(*cases, else_=None).cast("int32"))


def arms_found(rows: ir.Table) -> ir.Table:
    """Return, by arm: rows, those that arrived, when the first and last were assigned, and when the last arrived."""
    return rows.group_by("arm").agg(
        assigned_n=rows.count(),
        arrived_n=rows.arrived.count(),
        first=rows.assigned.min(),
        last=rows.assigned.max(),
        came=rows.arrived.max(),
    )


def faulty(rows: ir.Table, arms: int) -> ir.Table:
    """Return the rows that cannot be, the earliest first: those that `soundness.check_rows` refuses."""
    columns = [rows.p] if "p" in rows.columns else [rows[f"p{k}"] for k in range(arms)]
    total = sum(columns[1:], columns[0])
    own = chosen(rows, arms)
    # NaN is above every number, on every engine
    sound = (own > 0) & (total <= 1 + 1e-6)
    for p in columns:
        sound = sound & (p >= 0)
    if "p" not in rows.columns:
        sound = sound & (total >= 1 - 1e-6)
    out = rows.arrived.isnull()
    finite = rows.outcome.between(-_LARGEST, _LARGEST)
    sound = sound & ((out & rows.outcome.isnull()) | (~out & finite & (rows.arrived >= rows.assigned)))
    sound = sound & rows.code.notnull() & rows.assigned.notnull()
    if rows.assigned.type().is_floating():
        sound = sound & rows.assigned.between(-_LARGEST, _LARGEST)
    return rows.filter(~sound.fill_null(False)).order_by("assigned")


def anchors(rows: ir.Table, arms: int) -> ir.Table:
    """Return an outcome of each arm's least likely row that has one."""
    seen = rows.filter(present(rows.outcome)).mutate(own=chosen(rows, arms))
    return seen.group_by("code").agg(anchor=seen.outcome.argmin(seen.own))


def sums_table(
    rows: ir.Table,
    arms: int,
    weights: Weights,
    model: OutcomeModel,
    shift: Array,
    clock: Clock,
    moments: Array | None = None,
    matured: bool = False,
) -> ir.Table:
    """Return the sums of `rows`: a line for each arm, `k`; with moments, for each triple of `k`, `made` and `came`.

    `made` is the first of the moments at which a row exists, `came` that at which its outcome has arrived.
    With `matured`, a row exists once its outcome has arrived.
    """
    import ibis

    full = "p0" in rows.columns
    spreads = full or not weights.need_all_propensities
    running = model.name == "running_mean"
    own = rows.mutate(own=chosen(rows, arms))
    columns = ["assigned", "arrived", "outcome", "code", "own"]
    if spreads:
        # every row stands once for each arm: its weight counts for all of them
        long = own.mutate(k=ibis.literal(list(range(arms)), type="array<int32>").unnest())
        pi = long.k.cases(*((k, long[f"p{k}"]) for k in range(arms)), else_=None) if full else long.own
        long = long.select(*columns, k=long.k, pi=pi)
    else:
        long = own.select(*columns, k=own.code, pi=own.own)
    about = long.k.cases(*((k, float(c)) for k, c in enumerate(shift)), else_=None).cast("float64")
    long = long.mutate(about=about)
    if running:
        long = _with_means(long)
    h = {
        "sqrt": lambda: long.pi.sqrt(),
        "propensity": lambda: long.pi,
        "uniform": lambda: long.pi * 0 + 1,
    }[weights.name]()
    m = long.mean - long.about if running else -long.about
    values = long.mutate(
        h=h, m=m, y=long.outcome - long.about, w=h / long.own, mine=long.k == long.code, landed=long.arrived.notnull()
    )
    by = {"k": values.k}
    if moments is not None:
        landing = _bin(values.arrived, moments, clock)
        by |= {"made": landing if matured else _bin(values.assigned, moments, clock), "came": landing}
    return values.group_by(**by).agg(**_aggregates(values))


def _with_means(long: ir.Table) -> ir.Table:
    """Add `mean`: of the arm's outcomes of rows assigned before and arrived by then, 0 before any.

    Arrivals and rows are put in one order of time. At the same moment come first outcomes of earlier
    rows, then the rows, then outcomes that came at once, which only later rows may see.
    """
    import ibis

    mine = long.filter(long.arrived.notnull() & (long.k == long.code))
    arrivals = mine.select(
        assigned=ibis.null(long.assigned.type()), arrived=ibis.null(long.arrived.type()),
        outcome=ibis.null("float64"), code=ibis.null("int32"), own=ibis.null("float64"), k=mine.k,
        pi=ibis.null("float64"), about=mine.about,
        moment=mine.arrived, turn=(mine.arrived > mine.assigned).ifelse(0, 2), seen=mine.outcome - mine.about,
    )  # fmt: skip
    rows = long.mutate(moment=long.assigned, turn=ibis.literal(1), seen=ibis.null("float64"))
    both = rows.select(*arrivals.columns).union(arrivals)
    until = ibis.window(group_by=both.k, order_by=[both.moment, both.turn], rows=(None, 0))
    both = both.mutate(n=both.seen.count().over(until), total=both.seen.sum().over(until))
    both = both.filter(both.turn == 1)
    mean = (both.n > 0).ifelse(both.total / both.n.nullif(0) + both.about, 0)
    return both.mutate(mean=mean.cast("float64"))


def _bin(times: ir.Column, moments: Array, clock: Clock) -> ir.Column:
    """Return the first of the moments that is not before a time; their number if none is."""
    import ibis

    later = len(moments)
    branches = [(times <= literal(clock, moment, times), b) for b, moment in enumerate(moments)]
    return ibis.cases(*branches, else_=later).cast("int32")


def _aggregates(t: ir.Table) -> dict[str, ir.Column]:
    """Return the sums of `kernels.rows`, by name."""
    there = t.mine & t.landed
    r = t.y - t.m
    w2, w3 = t.w * t.w, t.w * t.w * t.w
    spread = {"h": t.h, "h2": t.h * t.h, "hm": t.h * t.m, "h2m": t.h * t.h * t.m, "h2m2": t.h * t.h * t.m * t.m}
    own = {
        "unbinary": (t.outcome * (1 - t.outcome)).abs(),
        "y": t.y, "y2": t.y * t.y, "w": t.w, "wy": t.w * t.y, "wm": t.w * t.m,
        "w2": w2, "w2y": w2 * t.y, "w2y2": w2 * t.y * t.y, "w3": w3, "w3y": w3 * t.y, "w3y2": w3 * t.y * t.y,
        "hwr": t.h * t.w * r, "hwrm": t.h * t.w * r * t.m, "w2r2": w2 * r * r,
    }  # fmt: skip
    return {
        **{name: value.sum() for name, value in spread.items()},
        "h_arrived": t.h.sum(where=t.landed),
        "assigned": t.mine.ifelse(1, 0).sum(),
        "arrived": there.ifelse(1, 0).sum(),
        **{name: value.sum(where=there) for name, value in own.items()},
        "w_max": t.w.max(where=there),
    }


def sums_of_table(
    table: Any,
    arms: tuple[Any, ...],
    weights: Weights,
    model: OutcomeModel,
    shift: Array,
    full: bool,
    plain: bool,
    bins: int = 1,
) -> list[Sums]:
    """Return the sums that the Arrow table of a `sums_table` holds."""
    n = len(arms)
    spread = np.zeros((bins + 1, len(kernel.SPREAD), n))
    own = np.zeros((bins + 1, n, len(kernel.OWN)))
    columns = {name: _floats(table[name]) for name in table.column_names}
    k = columns["k"].astype(np.intp)
    made = columns["made"].astype(np.intp) if "made" in columns else np.zeros(len(k), dtype=np.intp)
    came = columns["came"].astype(np.intp) if "came" in columns else np.zeros(len(k), dtype=np.intp)
    for f, name in enumerate(kernel.SPREAD):
        add_at(spread[:, f], came if name == "h_arrived" else made, k, columns[name])
    for f, name in enumerate(kernel.OWN):
        add_at(own[:, :, f], made if name == "assigned" else came, k, columns[name], largest=name == "w_max")
    return Sums.of_bins(arms, weights, model, shift, spread[:bins], own[:bins], full, plain)


def add_at(table: Array, rows: Array, columns: Array, values: Array, *, largest: bool = False) -> None:
    """Add values to a table's cells, or keep the largest of them; a cell may be named several times."""
    for row, column, value in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True):
        table[row, column] = max(table[row, column], value) if largest else table[row, column] + value


def _floats(column: Any) -> Array:
    """Return an Arrow column as floats; a sum over nothing is 0."""
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(column.cast("float64"), 0.0).to_numpy())
