"""Sums as one Ibis expression, for any engine: running means and the history rule included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.base.checks import LARGEST_FLOAT, LARGEST_OUTCOME, LEAST_PROBABILITY, tolerance
from belated.base.columns import Array
from belated.kernels.fields import OWN_FIELDS, SPREAD_FIELDS, SumField
from belated.log.clock import Clock
from belated.reading.columns import literal
from belated.reading.engines import engine_of, float_literal, library_of
from belated.summaries.covariates import Covariates, CovariateSums, pairs_of
from belated.summaries.segments import Layout
from belated.summaries.sums import Sums, SumsOf, empty_bins
from belated.summaries.weights import Weights

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

#: Sums that are asked for at once, about: engines bound how many columns an answer may have.
_MOST_SUMS = 400

#: Arms whose sums are asked for at once: a dozen of each.
_MOST_ARMS = _MOST_SUMS // 12


def chosen(rows: ir.Table, arms: int) -> ir.Column:
    """Return the propensity of each row's own arm; `code` says which that is."""
    if "p" in rows.columns:
        return rows.p
    return rows.code.cases(*((k, rows[f"p{k}"]) for k in range(arms)), else_=None)


def faulty(rows: ir.Table, arms: int) -> ir.Table:
    """Return the rows that cannot be, the earliest first: those that `log.row_checks` refuses."""
    return rows.filter(~_is_valid(rows, arms)).order_by("assigned")


def _is_valid(rows: ir.Table, arms: int) -> ir.BooleanColumn:
    """Return whether each row can be."""
    columns = [rows.p] if "p" in rows.columns else [rows[f"p{k}"] for k in range(arms)]
    total = sum(columns[1:], columns[0])
    own = chosen(rows, arms)
    # NaN is above every number, on every engine
    sound = (own >= LEAST_PROBABILITY) & (total <= 1 + tolerance(len(columns)))
    for p in columns:
        sound = sound & (p >= 0)
    if "p" not in rows.columns:
        sound = sound & (total >= 1 - tolerance(arms))
    out = rows.arrived.isnull()
    fits = rows.outcome.between(-LARGEST_OUTCOME, LARGEST_OUTCOME)
    sound = sound & ((out & rows.outcome.isnull()) | (~out & fits & (rows.arrived >= rows.assigned)))
    sound = sound & rows.code.notnull() & rows.assigned.notnull()
    if rows.assigned.type().is_floating():
        sound = sound & rows.assigned.between(-LARGEST_FLOAT, LARGEST_FLOAT)
    return sound.fill_null(False)


def first_pass(rows: ir.Table, arms: int) -> ir.Table:
    """Return, by `code` and, if there is one, `place`, what other queries need to know first.

    The number of `faulty` rows; and as `anchor` the outcome of the least likely row that has one.
    """
    rows = engine_of(rows).once(rows)
    known = rows.outcome.notnull().ifelse(chosen(rows, arms), None)
    by = [name for name in ("place", "code") if name in rows.columns]
    each = engine_of(rows).once(rows.select(*by, "outcome", known=known, faulty=_is_valid(rows, arms).ifelse(0, 1)))
    anchor = engine_of(rows).of_least(each.outcome, each.known)
    return each.group_by(*by).agg(faulty=each.faulty.sum(), anchor=anchor)


# ---------------------------------------------------------------- caps


def with_cap(rows: ir.Table, cap: float) -> ir.Table:
    """Return the rows with outcomes capped; values that are too large stay, and are refused later."""
    number = float_literal(cap, rows)
    return rows.mutate(outcome=rows.outcome.between(number, LARGEST_OUTCOME).ifelse(number, rows.outcome))


def above(rows: ir.Table, cap: float, cuts: Cuts | None = None) -> ir.Table:
    """Return how many outcomes, `n`, are above the cap, by `code` and the `bin` of moments in which they arrived."""
    above_cap = rows.filter((rows.outcome > float_literal(cap, rows)) & rows.arrived.notnull())
    above_cap = above_cap.select(
        code=above_cap.code, bin=above_cap.code * 0 if cuts is None else _bin(above_cap.arrived, cuts)
    )
    return above_cap.group_by("code", "bin").agg(n=above_cap.count())


# ---------------------------------------------------------------- sums


class Cuts(NamedTuple):
    """Moments at which sums are wanted."""

    moments: Array
    clock: Clock
    matured: bool  # whether a row exists only once its outcome has arrived


class CellColumns(NamedTuple):
    """What sums are kept by, if not by arms alone: `place` of rows is their segment.

    Attributes
    ----------
    segments : int
    even_from : int
        From this place on, every row has weight 1.
    """

    segments: int = 1
    even_from: int = 1

    @classmethod
    def of(cls, layout: Layout) -> CellColumns:
        """Return what sums are kept by if segments are told apart so."""
        return cls(len(layout.labels), layout.even_from(1))


def sums_tables(
    rows: ir.Table,
    about: SumsOf,
    shift: Array,
    cuts: Cuts | None = None,
    cells: CellColumns | None = None,
    delay: Callable[[ir.Table], ir.Column] | None = None,
    last: ir.Value | None = None,
) -> list[ir.Table]:
    """Return the sums of `rows`; each table has some of them.

    A column `hm_2` is of arm 2, `w2y` of the line's own arm, `k`. With moments, lines are for each of `exists`, the
    first of them at which a row exists, and `arrives`, that at which its outcome has arrived. With `cells`, rows have a
    `place`, lines are for each of those, and `about` and `shift` are of cells. With `delay`, of rows, the first table
    has its `delay_powers` too. `last` is when the last row was assigned: no row sees what arrives later.
    """
    cells = CellColumns() if cells is None else cells
    weights, arms, learns = about.weights, len(shift) // cells.segments, about.outcome_model.learns
    parts = _in_parts(range(arms)) if learns else []
    learned = [_learned(rows, some, about, shift, cuts, cells, last) for some in parts]
    rows = engine_of(rows).once(rows)
    known = range(arms) if "p0" in rows.columns or not weights.need_all_propensities else range(0)
    own = chosen(rows, arms)
    h = weight(weights, own, rows, cells)
    centre = by_arm(_cell(rows, arms), shift)
    bins = _bins(rows, cuts)
    each = engine_of(rows).once(
        rows.select(
            **bins, code=rows.code, about=centre, has_arrived=rows.arrived.notnull(), h=h, w=_inverse(rows, h, own),
            y=rows.outcome - centre, nonbinary=(rows.outcome * (1 - rows.outcome)).abs(),
            **{f"h{k}": weight(weights, _chance(rows, k), rows, cells) for k in known},
            **({} if delay is None else {"l": delay(rows)}),
        )
    )  # fmt: skip
    of_own = {name: each[name] for name in ("h", "w", "y")}
    if not learns:
        of_own |= {"m": -each.about, "r": each.y + each.about}
    sums = {"assigned": each.count(), "arrived": each.y.count(), "nonbinary": each.nonbinary.sum()}
    sums |= _sums_of(OWN_FIELDS, of_own, about.plain, {"own arrived": None})
    sums |= {} if delay is None else delay_powers(each)
    tables = []
    for some in _in_parts(known):
        for k in some:
            over = {"all": None, "all arrived": each.has_arrived}
            sums |= _sums_of(SPREAD_FIELDS, {"h": each[f"h{k}"]}, about.plain, over, f"_{k}")
        tables.append(each.group_by(*bins, k="code").agg(**sums))
        sums = {}
    return tables + learned


def delay_powers(rows: ir.Table) -> dict[str, ir.Scalar]:
    """Return the sums of l^i y^j for i, j in 0, 1, 2 over rows that have an `l`, by name: `s12` is that of l y^2."""
    one = rows.l * 0 + 1
    l_powers, y_powers = (one, rows.l, rows.l * rows.l), (None, rows.y, rows.y * rows.y)
    return {
        f"s{i}{j}": (l_power if y_power is None else l_power * y_power).sum()
        for i, l_power in enumerate(l_powers)
        for j, y_power in enumerate(y_powers)
    }


def _in_parts(arms: range) -> list[range]:
    """Return the arms in groups whose sums one query can compute; one empty group if there are no arms."""
    return [arms[i : i + _MOST_ARMS] for i in range(0, len(arms), _MOST_ARMS)] or [arms]


def _bins(rows: ir.Table, cuts: Cuts | None) -> dict[str, ir.Column]:
    """Return each row's segment, the moment at which it exists, and that at which its outcome has arrived, if any."""
    place = {"place": rows.place} if "place" in rows.columns else {}
    if cuts is None:
        return place
    arrives = _bin(rows.arrived, cuts)
    return place | {"exists": arrives if cuts.matured else _bin(rows.assigned, cuts), "arrives": arrives}


def _cell(rows: ir.Table, arms: int) -> ir.Column:
    """Return the cell of each row: its segment and arm."""
    return rows.place * arms + rows.code if "place" in rows.columns else rows.code


def _chance(rows: ir.Table, k: int) -> ir.Column:
    """Return the propensity of an arm; if only that of the chosen arm is known, it counts for rows of this arm."""
    return rows[f"p{k}"] if f"p{k}" in rows.columns else rows.p


def _inverse(rows: ir.Table, h: ir.Column, own: ir.Column) -> ir.Column:
    """Return h over the probability that the arm was chosen and the outcome arrives; null without an outcome."""
    chance = own * rows.arrive if "arrive" in rows.columns else own
    return rows.arrived.notnull().ifelse(h / chance, None)


def weight(weights: Weights, pi: ir.Column, rows: ir.Table, cells: CellColumns) -> ir.Column:
    """Return the weight h of rows for an arm whose probability is `pi`; 1 in merged segments."""
    one = library_of(pi).literal(1).cast("float64")
    h = {"sqrt": pi.sqrt(), "propensity": pi, "uniform": one}[weights.name]
    return h if cells.even_from >= cells.segments else (rows.place >= cells.even_from).ifelse(one, h)


def products_tables(
    rows: ir.Table,
    x: Sequence[ir.Column],
    about: SumsOf,
    shift: Array,
    cuts: Cuts | None,
    cells: CellColumns,
) -> list[ir.Table]:
    """Return the sums of products with covariates `x`, as `kernels.rows.Totals` has them, some pairs in each table.

    A column `q3_2` is the sum of w^2 times the third product of z = (1, x, y) over arrived rows, `a3` that of (1, x)
    over all rows; lines are as those of `sums_tables`.
    """
    arms = len(about.arms) // cells.segments
    own = chosen(rows, arms)
    w = _inverse(rows, weight(about.weights, own, rows, cells), own)
    y = rows.outcome - by_arm(_cell(rows, arms), shift)
    bins = _bins(rows, cuts)
    named = {f"x{i}": column for i, column in enumerate(x)}
    values = engine_of(rows).once(rows.select(**bins, k=rows.code, w=w, y=y, **named))
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
            tables.append(values.group_by(*bins, "k").agg(**sums))
            sums = {}
    return tables


def products_of_tables(
    tables: Sequence[pa.Table], covariates: Covariates, arms: int, segments: int, shift: Array, bins: int
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
    none = np.zeros(len(next(iter(columns.values()))))
    exists, arrives, place, k = (
        columns.get(name, none).astype(np.intp) for name in ("exists", "arrives", "place", "k")
    )
    return exists, arrives, place, k


def by_arm(code: ir.Column, values: Array) -> ir.Column:
    """Return each arm's value."""
    return code.cases(*((k, float_literal(v, code)) for k, v in enumerate(values)), else_=None)


def _learned(
    rows: ir.Table,
    some: range,
    about: SumsOf,
    shift: Array,
    cuts: Cuts | None,
    cells: CellColumns,
    last: ir.Value | None,
) -> ir.Table:
    """Return the sums for some arms that depend on a model that learns: a line for each arm `k`, in each of `bins`.

    The model is the mean of the arm's outcomes of rows assigned before and arrived by then, null before any, minus the
    arm's shift. Arrivals and rows are put in one order of time, which all arms share. At the same moment come first
    outcomes of earlier rows, then the rows, then outcomes that arrived at once, which only later rows may see.
    """
    import ibis

    arms, has_arrived = len(shift) // cells.segments, rows.arrived.notnull() if last is None else rows.arrived <= last
    each = rows.filter(has_arrived)
    rows, each = engine_of(rows).once(rows), engine_of(rows).once(each)
    bins = _bins(rows, cuts)
    segment = [name for name in bins if name == "place"]
    of_some = {k: shift[k] for k in range(len(shift)) if k % arms in some}

    def y(rows: ir.Table) -> ir.Column:
        return rows.outcome - _cell(rows, arms).cases(
            *((k, float_literal(v, rows)) for k, v in of_some.items()), else_=None
        )

    own = rows.p if "p" in rows.columns else rows.code.cases(*((k, rows[f"p{k}"]) for k in some), else_=None)
    h = weight(about.weights, own, rows, cells)
    assigned = rows.select(
        **bins, code=rows.code, y=y(rows), h=h, w=_inverse(rows, h, own), moment=rows.assigned,
        turn=ibis.literal(1, type="int8"), arrival=ibis.null("int32"), value=ibis.null("float64"),
        **{f"h{k}": weight(about.weights, _chance(rows, k), rows, cells) for k in some},
    )  # fmt: skip
    is_later = each.arrived > each.assigned
    arrived = each.select(
        *segment, arrival=each.code, value=y(each), moment=each.arrived, turn=is_later.ifelse(0, 2).cast("int8")
    )
    rest = {name: ibis.null(dtype) for name, dtype in assigned.schema().items() if name not in arrived.columns}
    both = assigned.union(arrived.mutate(**rest).select(*assigned.columns))
    until = ibis.window(group_by=segment, order_by=[both.moment, both.turn], rows=(None, 0))
    both = both.mutate(**{f"m{k}": (both.arrival == k).ifelse(both.value, None).mean().over(until) for k in some})
    return _modelled(both.filter(both.code.notnull()), some, about, shift, [*bins], cells)


def _modelled(
    rows: ir.Table, some: range, about: SumsOf, shift: Array, bins: Sequence[str], cells: CellColumns
) -> ir.Table:
    """Return the sums that depend on the models of some arms: `m0` and so on, null where an arm has none yet."""
    each = engine_of(rows).once(
        rows.mutate(
            m=rows.code.cases(*((k, rows[f"m{k}"]) for k in some), else_=None),
            start=rows.code.cases(*((k, -_shift(rows, k, shift, cells)) for k in some), else_=None),
        )
    )
    # null products are left out of sums, as those over rows with a model need
    m = each.m.fill_null(each.start) if about.plain else each.m
    of_own = {"h": each.h, "w": each.w, "y": each.y, "m": m, "r": each.y - m}
    over = {"own arrived": None, "own modelled": each.m.notnull()}
    sums = _sums_of(OWN_FIELDS, of_own, about.plain, over, of_model=True)
    for k in some:
        m = each[f"m{k}"]
        of_all = {"h": each[f"h{k}"], "m": m.fill_null(-_shift(each, k, shift, cells)) if about.plain else m}
        sums |= _sums_of(
            SPREAD_FIELDS, of_all, about.plain, {"all": None, "all modelled": m.notnull()}, f"_{k}", of_model=True
        )
    return each.group_by(*bins, k="code").agg(**sums)


def _shift(rows: ir.Table, k: int, shift: Array, cells: CellColumns) -> ir.Value:
    """Return the shift of an arm: in each row's segment, if there are any."""
    if "place" in rows.columns:
        return by_arm(rows.place, shift[k :: len(shift) // cells.segments])
    return float_literal(shift[k], rows)


def _bin(times: ir.Column, cuts: Cuts) -> ir.Column:
    """Return the first of the moments that is not before a time; their number if none is."""
    library, ends = library_of(times), [literal(cuts.clock, moment, times) for moment in cuts.moments]

    def first(low: int, high: int) -> ir.Value:
        """Return it among those from one to another; the last for a time that is null."""
        if low == high:
            return library.literal(low)
        middle = (low + high) // 2
        return library.cases((times <= ends[middle], first(low, middle)), else_=first(middle + 1, high))

    return first(0, len(ends)).cast("int32")


def _sums_of(
    fields: Sequence[SumField],
    columns: Mapping[str, ir.Column],
    plain: bool,
    over: Mapping[str, ir.BooleanColumn | None],
    suffix: str = "",
    *,
    of_model: bool = False,
) -> dict[str, ir.Scalar]:
    """Return the sums of fields by name: those over rows that `over` has, of powers that `columns` has.

    `w` and `y` are null in rows that do not count. `of_model`: only those that depend on the model.
    """
    sums = {}
    for field in fields:
        powers = {name: getattr(field, name) for name in ("h", "w", "y", "m", "r")}
        learned = field.m or field.r or field.over.endswith("modelled")
        if (field.plain and not plain) or field.over not in over or (of_model and not learned):
            continue
        if any(power and name not in columns for name, power in powers.items()) or not any(powers.values()):
            continue
        term = reduce(mul, [columns[name] for name, power in powers.items() for _ in range(power)])
        sums[f"{field.name}{suffix}"] = term.max() if field.largest else term.sum(where=over[field.over])
    return sums


def sums_of_tables(
    tables: Sequence[pa.Table], about: SumsOf, shift: Array, bins: int = 1, segments: int = 1
) -> list[Sums]:
    """Return the sums that the Arrow tables of `sums_tables` hold."""
    arms = len(about.arms) // segments
    spread, own = empty_bins(bins + 1, len(about.arms))
    for table in tables:
        columns = {name: _floats(table[name]) for name in table.column_names}
        assigned, arrived, place, k = _places(columns)
        arm_of = {"": k, **{f"_{j}": j for j in range(arms)}}
        for suffix, arm in arm_of.items():
            cell = place * arms + arm
            for f, field in enumerate(SPREAD_FIELDS):
                if f"{field.name}{suffix}" in columns:
                    at = arrived if field.over == "all arrived" else assigned
                    np.add.at(spread[:, f], (at, cell), columns[f"{field.name}{suffix}"])
            for f, field in enumerate(OWN_FIELDS):
                if f"{field.name}{suffix}" in columns:
                    put, at = np.maximum if field.largest else np.add, assigned if field.over == "own" else arrived
                    put.at(own[:, :, f], (at, cell), columns[f"{field.name}{suffix}"])
    return Sums.of_bins(about, shift, spread[:bins], own[:bins])


def _floats(column: pa.ChunkedArray) -> Array:
    """Return an Arrow column as floats; a sum over nothing is 0."""
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(column.cast("float64"), 0.0).to_numpy())
