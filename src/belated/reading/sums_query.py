"""Sums as one Ibis expression, for any engine: running means and the history rule included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, tolerance
from belated.base.columns import Array, Label
from belated.kernels.fields import OWN_FIELDS, SPREAD_FIELDS, Field
from belated.log.clock import Clock
from belated.reading.columns import literal
from belated.reading.engines import library_of
from belated.summaries.covariates import Covariates, CovariateSums, pairs_of
from belated.summaries.sums import Sums, SumsOf, empty_bins
from belated.summaries.weights import Weights

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_LARGEST = float(np.finfo(np.float64).max)

#: Sums that are asked for at once, about: engines bound how many columns an answer may have.
_MOST_SUMS = 400


def chosen(rows: ir.Table, arms: int) -> ir.Column:
    """Return the propensity of each row's own arm; `code` says which that is."""
    if "p" in rows.columns:
        return rows.p
    return rows.code.cases(*((k, rows[f"p{k}"]) for k in range(arms)), else_=None)


def with_codes(rows: ir.Table, values: Sequence[Label]) -> ir.Table:
    """Add `code`, the position of each row's arm among `values`."""
    library, kind = library_of(rows), rows.arm.type()
    cases = ((library.literal(value, type=kind), k) for k, value in enumerate(values))
    return rows.mutate(code=rows.arm.cases(*cases, else_=None).cast("int32"))


def faulty(rows: ir.Table, arms: int) -> ir.Table:
    """Return the rows that cannot be, the earliest first: those that `log.row_checks` refuses."""
    columns = [rows.p] if "p" in rows.columns else [rows[f"p{k}"] for k in range(arms)]
    total = sum(columns[1:], columns[0])
    own = chosen(rows, arms)
    # NaN is above every number, on every engine
    sound = (own > 0) & (total <= 1 + tolerance(len(columns)))
    for p in columns:
        sound = sound & (p >= 0)
    if "p" not in rows.columns:
        sound = sound & (total >= 1 - tolerance(arms))
    out = rows.arrived.isnull()
    fits = rows.outcome.between(-LARGEST_OUTCOME, LARGEST_OUTCOME)
    sound = sound & ((out & rows.outcome.isnull()) | (~out & fits & (rows.arrived >= rows.assigned)))
    sound = sound & rows.code.notnull() & rows.assigned.notnull()
    if rows.assigned.type().is_floating():
        sound = sound & rows.assigned.between(-_LARGEST, _LARGEST)
    return rows.filter(~sound.fill_null(False)).order_by("assigned")


def anchors(rows: ir.Table, arms: int) -> ir.Table:
    """Return an outcome of each cell's least likely row that has one: of each `code`, or `place` and `code`."""
    arrived = rows.filter(rows.outcome.notnull()).mutate(own=chosen(rows, arms))
    by = [name for name in ("place", "code") if name in rows.columns]
    return arrived.group_by(*by).agg(anchor=arrived.outcome.argmin(arrived.own))


# ---------------------------------------------------------------- caps


def with_cap(rows: ir.Table, cap: float) -> ir.Table:
    """Return the rows with outcomes above the cap as the cap; what is not finite stays, to be refused."""
    number = _exact(cap, rows)
    return rows.mutate(outcome=rows.outcome.between(number, _LARGEST).ifelse(number, rows.outcome))


def above(rows: ir.Table, cap: float, cuts: Cuts | None = None) -> ir.Table:
    """Return how many outcomes, `n`, are above the cap, by `code` and the `bin` of moments in which they arrived."""
    found = rows.filter((rows.outcome > _exact(cap, rows)) & rows.arrived.notnull())
    found = found.select(code=found.code, bin=found.code * 0 if cuts is None else _bin(found.arrived, cuts))
    return found.group_by("code", "bin").agg(n=found.count())


def _exact(number: float, beside: ir.Expr) -> ir.Value:
    """Return a number; from text, as PostgreSQL would take it for one of another kind."""
    return library_of(beside).literal(repr(float(number))).cast("float64")


# ---------------------------------------------------------------- sums


class Cuts(NamedTuple):
    """Moments at which sums are wanted."""

    moments: Array
    clock: Clock
    matured: bool  # whether a row exists only once its outcome has arrived


class Cells(NamedTuple):
    """What sums are kept by, if not by arms alone: `place` of rows is their segment.

    Attributes
    ----------
    segments : int
    even_from : int
        From this place on, every row has weight 1.
    """

    segments: int = 1
    even_from: int = 1


def sums_table(
    rows: ir.Table, about: SumsOf, shift: Array, cuts: Cuts | None = None, cells: Cells | None = None
) -> ir.Table:
    """Return the sums of `rows`: a line for each arm, `k`; with moments, for each of `k`, `exists` and `arrives`.

    `exists` is the first of the moments at which a row exists, `arrives` that at which its outcome has arrived. With
    `cells`, rows have a `place`, lines are for each `place` and `k`, and `about` and `shift` are of cells.
    """
    cells = Cells() if cells is None else cells
    weights, arms = about.weights, len(about.arms) // cells.segments
    known = range(arms) if "p0" in rows.columns or not weights.need_all_propensities else range(0)
    own = chosen(rows, arms)
    has_arrived = rows.arrived.notnull()
    h = _weight(weights, own, rows, cells)
    centre = by_arm(_cell(rows, arms), shift)
    columns = {
        "code": rows.code, "about": centre, "has_arrived": has_arrived, "h": h,
        "w": _inverse(rows, h, own), "y": rows.outcome - centre,
        "nonbinary": (rows.outcome * (1 - rows.outcome)).abs(),
        **{f"h{k}": _weight(weights, rows[f"p{k}"] if f"p{k}" in rows.columns else own, rows, cells) for k in known},
    }  # fmt: skip
    bins = {"place": rows.place} if "place" in rows.columns else {}
    if cuts is not None:
        bins |= _bins(rows, cuts)
    if about.outcome_model.learns:
        values = rows.select(**columns, **bins, assigned=rows.assigned, arrived=rows.arrived)
        long = _with_means(_computed(values), known, shift, [*bins], arms)
        over_all, own_sums = _over_all(long, long.h, "", about.plain, long.m), _over_own(long, about.plain, long.m)
        return long.group_by("k", *bins).agg(assigned=long.mine.sum(), **over_all, **own_sums)
    values = _computed(rows.select(**columns, **bins))
    over_all = {}
    for k in known:
        over_all |= _over_all(values, values[f"h{k}"], f"_{k}", about.plain)
    own_sums = _over_own(values, about.plain)
    return values.group_by(*bins, k="code").agg(assigned=values.count(), **over_all, **own_sums)


def _bins(rows: ir.Table, cuts: Cuts) -> dict[str, ir.Column]:
    """Return the moments at which each row exists, and at which its outcome has arrived."""
    arrives = _bin(rows.arrived, cuts)
    return {"exists": arrives if cuts.matured else _bin(rows.assigned, cuts), "arrives": arrives}


def _cell(rows: ir.Table, arms: int) -> ir.Column:
    """Return the cell of each row: its segment and arm."""
    return rows.place * arms + rows.code if "place" in rows.columns else rows.code


def _inverse(rows: ir.Table, h: ir.Column, own: ir.Column) -> ir.Column:
    """Return h over the probability that the arm was chosen and the outcome arrives; null without an outcome."""
    chance = own * rows.arrive if "arrive" in rows.columns else own
    return rows.arrived.notnull().ifelse(h / chance, None)


def _weight(weights: Weights, pi: ir.Column, rows: ir.Table, cells: Cells) -> ir.Column:
    one = library_of(pi).literal(1).cast("float64")
    h = {"sqrt": pi.sqrt(), "propensity": pi, "uniform": one}[weights.name]
    return h if cells.even_from >= cells.segments else (rows.place >= cells.even_from).ifelse(one, h)


def products_tables(
    rows: ir.Table,
    x: Sequence[ir.Column],
    about: SumsOf,
    shift: Array,
    cuts: Cuts | None = None,
    cells: Cells | None = None,
) -> list[ir.Table]:
    """Return the sums of products with covariates `x`, as `kernels.rows.Totals` has them, some pairs in each table.

    A column `q3_2` is the sum of w^2 times the third product of z = (1, x, y) over arrived rows, `a3` that of (1, x)
    over all rows; lines are as those of `sums_table`.
    """
    cells = Cells() if cells is None else cells
    arms = len(about.arms) // cells.segments
    own = chosen(rows, arms)
    w = _inverse(rows, _weight(about.weights, own, rows, cells), own)
    y = rows.outcome - by_arm(_cell(rows, arms), shift)
    bins = {} if cuts is None else _bins(rows, cuts)
    place = {"place": rows.place} if "place" in rows.columns else {}
    named = {f"x{i}": column for i, column in enumerate(x)}
    values = _computed(rows.select(**place, **bins, k=rows.code, w=w, y=y, **named))
    one = values.w * 0 + 1  # null without an outcome
    z: list[ir.Column | None] = [None, *(values[name] for name in named), values.y]
    tables: list[ir.Table] = []
    sums: dict[str, ir.Scalar] = {}
    pairs = list(zip(*(places.tolist() for places in pairs_of(len(z))), strict=True))
    for at, (i, j) in enumerate(pairs):
        factors = [column for column in (z[i], z[j]) if column is not None]
        product = reduce(mul, [one, *factors])
        for power in range(4):
            sums[f"q{at}_{power}"] = product.sum()
            product = product * values.w
        if i < len(z) - 1:
            sums[f"a{at}"] = reduce(mul, factors).sum() if factors else values.count()
        if len(sums) > _MOST_SUMS or at == len(pairs) - 1:
            tables.append(values.group_by(*place, *bins, "k").agg(**sums))
            sums = {}
    return tables


def products_of_tables(
    tables: Sequence[pa.Table], covariates: Covariates, arms: int, segments: int, shift: Array, bins: int = 1
) -> list[CovariateSums | None]:
    """Return the sums that the Arrow tables of `products_tables` hold, up to each moment."""
    size = len(covariates.names) + 2
    own = np.zeros((bins + 1, arms * segments, size * (size + 1) // 2, 4))
    all_ = np.zeros((bins + 1, segments, size * (size - 1) // 2))
    for table in tables:
        columns = {name: _floats(table[name]) for name in table.column_names}
        exists, arrives, place, k = _places(columns)
        for name, column in columns.items():
            if name[0] == "q":
                at, power = map(int, name[1:].split("_"))
                np.add.at(own[:, :, at, power], (arrives, place * arms + k), column)
            elif name[0] == "a" and name[1:].isdigit():
                np.add.at(all_[:, :, int(name[1:])], (exists, place), column)
    return CovariateSums.of_bins(covariates, own[:bins], all_[:bins], shift)


def _places(columns: Mapping[str, Array]) -> tuple[Array, Array, Array, Array]:
    """Return the lines' places in sums: the moments at which rows exist and arrive, segment and arm."""
    k = columns["k"].astype(np.intp)
    exists, arrives, place = (
        columns.get(name, np.zeros(len(k))).astype(np.intp) for name in ("exists", "arrives", "place")
    )
    return exists, arrives, place, k


def by_arm(code: ir.Column, values: Array) -> ir.Column:
    """Return each arm's value."""
    return code.cases(*((k, _exact(v, code)) for k, v in enumerate(values)), else_=None)


def _computed(table: ir.Table) -> ir.Table:
    """Have each column computed once: engines that merge selects do not merge one that multiplies rows."""
    import ibis

    return table.mutate(once=ibis.literal([0], type="array<int8>").unnest()).drop("once")


def _with_means(values: ir.Table, known: range, shift: Array, bins: list[str], arms: int) -> ir.Table:
    """Return each row once for each arm, `k`, with its weight `h` and model `m`, and what counts for its own arm only.

    The model is the mean of the arm's outcomes of rows assigned before and arrived by then, null before any, minus the
    arm's shift. Arrivals and rows are put in one order of time. At the same moment come first outcomes of earlier
    rows, then the rows, then outcomes that arrived at once, which only later rows may see.
    """
    import ibis

    if known:  # a row's weight counts for every arm
        long = values.mutate(k=ibis.literal([*known], type="array<int32>").unnest())
        h = long.k.cases(*((k, long[f"h{k}"]) for k in known), else_=None)
    else:
        long = values.mutate(k=values.code)
        h = long.h
    mine = long.k == long.code
    segment = ["place"] if "place" in bins else []
    about = by_arm(long.place * arms + long.k if segment else long.k, shift)
    rows = long.select(
        *bins, "k", "has_arrived", h=h, about=about, mine=mine.ifelse(1, 0),
        **{name: mine.ifelse(long[name], None) for name in ("w", "y", "nonbinary")},
        moment=long.assigned, turn=ibis.literal(1, type="int8"), arrival=ibis.null("float64"),
    )  # fmt: skip
    arrived = values.filter(values.has_arrived)
    turn = (arrived.arrived > arrived.assigned).ifelse(0, 2).cast("int8")
    arrivals = arrived.select(*segment, k=arrived.code, moment=arrived.arrived, turn=turn, arrival=arrived.y)
    rest = {name: ibis.null(dtype) for name, dtype in rows.schema().items() if name not in arrivals.columns}
    both = rows.union(arrivals.mutate(**rest).select(*rows.columns))
    group = [both[name] for name in (*segment, "k")]
    until = ibis.window(group_by=group, order_by=[both.moment, both.turn], rows=(None, 0))
    both = both.mutate(n=both.arrival.count().over(until), total=both.arrival.sum().over(until))
    both = both.filter(both.turn == 1)
    return both.mutate(m=both.total / both.n.nullif(0))


def _bin(times: ir.Column, cuts: Cuts) -> ir.Column:
    """Return the first of the moments that is not before a time; their number if none is."""
    branches = [(times <= literal(cuts.clock, moment, times), b) for b, moment in enumerate(cuts.moments)]
    return library_of(times).cases(*branches, else_=len(cuts.moments)).cast("int32")


def _over_all(t: ir.Table, h: ir.Column, suffix: str, plain: bool, m: ir.Column | None = None) -> dict[str, ir.Column]:
    """Return the sums over every row, by name; without a model, those of the model follow from the others."""
    columns = {"h": h} if m is None else {"h": h, "m": m.fill_null(-t.about)}
    where = {"all arrived": t.has_arrived} if m is None else {"all arrived": t.has_arrived, "all modelled": m.notnull()}
    return {
        f"{field.name}{suffix}": _term(field, columns).sum(where=where.get(field.over))
        for field in SPREAD_FIELDS
        if (plain or not field.plain) and (m is not None or (field.m == 0 and field.over != "all modelled"))
    }


def _over_own(t: ir.Table, plain: bool, m: ir.Column | None = None) -> dict[str, ir.Column]:
    """Return the sums over an arm's own rows, by name; `w` and `y` are null in rows that do not count."""
    model = -t.about if m is None else m.fill_null(-t.about)
    columns = {"h": t.h, "w": t.w, "y": t.y, "m": model, "r": t.y - model}
    sums = {"arrived": t.y.count(), "nonbinary": t.nonbinary.sum()}
    for field in OWN_FIELDS:
        if field.over == "own" or field.name in sums or (field.plain and not plain):
            continue
        term = _term(field, columns)
        if field.over == "own modelled":
            if m is not None:
                sums[field.name] = term.sum(where=m.notnull())
        else:
            sums[field.name] = term.max() if field.largest else term.sum()
    return sums


def _term(field: Field, columns: Mapping[str, ir.Column]) -> ir.Column:
    """Return the product of a field's powers."""
    factors = [column for name, column in columns.items() for _ in range(getattr(field, name))]
    return reduce(mul, factors)


def sums_of_table(table: pa.Table, about: SumsOf, shift: Array, bins: int = 1, segments: int = 1) -> list[Sums]:
    """Return the sums that the Arrow table of a `sums_table` holds."""
    arms = len(about.arms) // segments
    spread, own = empty_bins(bins + 1, len(about.arms))
    columns = {name: _floats(table[name]) for name in table.column_names}
    assigned, arrived, place, k = _places(columns)
    cell = place * arms + k
    for f, field in enumerate(SPREAD_FIELDS):
        at = arrived if field.over == "all arrived" else assigned
        if field.name in columns:
            np.add.at(spread[:, f], (at, cell), columns[field.name])
        for j in range(arms):
            if f"{field.name}_{j}" in columns:
                np.add.at(spread[:, f], (at, place * arms + j), columns[f"{field.name}_{j}"])
    for f, field in enumerate(OWN_FIELDS):
        put = np.maximum if field.largest else np.add
        if field.name in columns:
            put.at(own[:, :, f], (assigned if field.over == "own" else arrived, cell), columns[field.name])
    return Sums.of_bins(about, shift, spread[:bins], own[:bins])


def _floats(column: pa.ChunkedArray) -> Array:
    """Return an Arrow column as floats; a sum over nothing is 0."""
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(column.cast("float64"), 0.0).to_numpy())
