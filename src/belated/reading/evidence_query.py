"""The counts and sums of checks and reports, computed by the engine that holds the log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import TINY
from belated.base.columns import Array
from belated.reading.columns import floats, literal
from belated.reading.engines import engine_of, fetch, sentences
from belated.reading.sums_query import by_arm, chosen, delay_powers
from belated.summaries import contexts
from belated.summaries.evidence import (
    AT_MEAN,
    BIN_ROUNDING,
    DELAY_BINS,
    LOOKED_AT,
    NOT_ARRIVED,
    STRETCHES,
    UNIT_ROUNDING,
    ArrivalCounts,
    CovariateEvidence,
    DelayBins,
    Evidence,
    FollowUp,
    OutcomeShape,
    Recorded,
    SegmentEvidence,
    grain_of,
    mean_and_sd,
    settled,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from belated.log.clock import Clock
    from belated.reading.table_rows import TableRows


def evidence(source: TableRows, dependence: Array | None, swings: contexts.Swings) -> Evidence:
    """Return the evidence of a log without loading it: a few queries, which return only counts and sums.

    `dependence` is None for events in a window.
    """
    rows, arms = source.coded, len(source.arms)
    low, rarest, unlikeliest = np.full((3, arms), math.nan)
    with sentences(source.name, source.query.versions):
        arrived, p = rows.arrived.notnull(), _chosen(source, rows)
        least = {
            "low": arrived.ifelse(rows.outcome, None).min(),
            "rarest": arrived.ifelse(p, None).min(),
            "least": p.min(),
        }
        least_by_arm = fetch(rows.group_by("code").agg(**least))
        code = least_by_arm["code"].to_pylist()
        low[code], rarest[code], unlikeliest[code] = (floats(least_by_arm[name]) for name in least)
        sums, by_segment = _sums(source)
        shape = _shape(source, sums)
        chances = _chances(source, rarest) if source.has_all_propensities else {}
        excess, variance = calibration(source) or (None, None)
    return Evidence(
        arms=source.arms, rows=len(source), within=source.within, grain=_grain(source),
        moments=_followed(source).moments, sums=sums, shift=source.anchors, low=low, rarest=rarest, shape=shape,
        unlikeliest=unlikeliest,
        p=chances.get("p"), p2=chances.get("p2"), p_min=chances.get("p_min"), h=chances.get("h"),
        h_max=chances.get("h_max"), chance=chances.get("chance"), log_p=chances.get("log_p"),
        excess=excess, variance=variance,
        dependence=np.zeros((_cells(source), 3, 3)) if dependence is None else dependence,
        arrivals=arrival_counts(source), swings=swings, segments=by_segment,
        covariates=_covariates(source),
    )  # fmt: skip


def _chosen(source: TableRows, rows: ir.Table) -> ir.FloatingColumn:
    """Return the probability of each row's own arm."""
    return chosen(rows, len(source.arms))


def _place(source: TableRows, rows: ir.Table) -> ir.IntegerColumn:
    """Return which of the stretches of time each row was assigned in."""
    place = period_of(source, since_first(source, rows), STRETCHES)
    return (place >= STRETCHES).ifelse(STRETCHES - 1, place)


def since_first(source: TableRows, rows: ir.Table) -> ir.FloatingColumn:
    """Return how long after the first row each was assigned, in the units of `length_between`."""
    return length_between(rows.assigned, literal(source.clock, source.span[0], rows.assigned))


def period_of(source: TableRows, since: ir.FloatingColumn, periods: int) -> ir.IntegerColumn:
    """Return which of equal periods each row was assigned in; of the last row, the one after the last."""
    width = span_of(source.clock, *source.span) / periods
    return (since / width).floor().cast("int32") if width > 0 else (since * 0).cast("int32")


def _cells(source: TableRows) -> int:
    """Return the number of arms or, with segments, of segments and arms."""
    return len(source.layout.labels) * len(source.arms)


def _old_and_soon(source: TableRows, rows: ir.Table, one: ir.Column) -> tuple[ir.Column, ir.Column]:
    """Return 1 for rows followed for half of the experiment, and for those whose outcome arrived within that time."""
    followed, none = _followed(source), one * 0
    old = (rows.assigned <= literal(source.clock, followed.old_until, rows.assigned)).ifelse(one, none)
    within = (length_between(rows.arrived, rows.assigned) <= span_of(source.clock, 0, followed.half)).ifelse(one, none)
    return old, rows.arrived.notnull().ifelse(old * within, none)


def _sums(source: TableRows) -> tuple[dict[str, Array], SegmentEvidence | None]:
    """Sum up rows by arm and stretch of time, and by segment if there are segments."""
    rows, arms = source.placed, len(source.arms)
    arrived, p = rows.arrived.notnull(), _chosen(source, rows)
    one = p * 0 + 1  # of the type of probabilities: some engines take plain numbers for decimals
    old, soon = _old_and_soon(source, rows, one)
    values = engine_of(rows).once(
        rows.select(
            code=rows.code, place=rows.place, bin=_place(source, rows), inverse=1 / p, old=old, soon=soon, one=one,
            arrived=arrived.ifelse(one, None), y=arrived.ifelse(rows.outcome - by_arm(rows.code, source.anchors), None),
            w=arrived.ifelse((1 / p).sqrt(), None),
        )
    )  # fmt: skip
    w = values.w
    terms = {
        "assigned": values.one, **{name: values[name] for name in ("inverse", "old", "soon", "arrived", "y")},
        "y2": values.y * values.y, "w": w, "w2": w * w, "w3": w * w * w, "w4": w * w * w * w,
    }  # fmt: skip
    names = [*terms]
    sums = {name: term.sum() for name, term in terms.items()}
    totals = fetch(values.group_by("code", "place", "bin").agg(**sums)).to_pydict()
    tables = {name: np.zeros((STRETCHES, len(source.layout.labels), arms)) for name in names}
    for name, table in tables.items():
        table[totals["bin"], totals["place"], totals["code"]] = [0.0 if v is None else v for v in totals[name]]
    by_segment = None
    if source.segments and source.units is not None:
        kept = ("assigned", "old", "soon", "arrived", "y", "y2")
        cells = {name: tables[name].reshape(STRETCHES, -1) for name in kept}
        by_segment = SegmentEvidence(source.segments, source.layout.merged, source.units.missing, cells)
    return {name: table.sum(axis=1) for name, table in tables.items()}, by_segment


def _covariates(source: TableRows) -> CovariateEvidence | None:
    """Sum up covariates by segment and arm, and against the choice of each arm."""
    units = source.units
    names = () if units is None or units.covariates is None else units.covariates.names
    if units is None or not names:
        return None
    rows, arms = source.placed, len(source.arms)
    one = _chosen(source, rows) * 0 + 1
    old, soon = _old_and_soon(source, rows, one)
    full = source.has_all_propensities
    chances = {f"p{k}": rows[f"p{k}"] for k in range(arms)} if full else {}
    shape = (len(source.layout.labels), arms)
    counts, sums, choice = np.zeros((2, *shape)), np.zeros((4, *shape, len(names))), np.zeros((3, arms, len(names)))
    with sentences(source.name, source.query.versions):
        for i in range(len(names)):
            values = rows.select(
                code=rows.code, place=rows.place, old=old, soon=soon, x=units.covariate(rows, i), **chances
            )
            x, size = values.x, values.x.abs()
            terms = {
                "old": values.old, "soon": values.soon, "x0": values.old * x, "x1": values.old * x * x,
                "x2": values.old * size * size * size, "x3": values.soon * x, "all": x,
            }  # fmt: skip
            for k in range(arms if full else 0):
                p = values[f"p{k}"]
                spread = p * (1 - p) * x * x
                terms |= {f"e{k}": p * x, f"v{k}": spread, f"t{k}": spread * size}
            query = values.group_by("place", "code").agg(**{name: term.sum() for name, term in terms.items()})
            totals = {name: np.array(column) for name, column in fetch(query).to_pydict().items()}
            at = totals["place"], totals["code"]
            counts[0][at], counts[1][at] = totals["old"], totals["soon"]
            for power in range(4):
                sums[power, :, :, i][at] = totals[f"x{power}"]
            np.add.at(choice[0, :, i], totals["code"], totals["all"])
            for k in range(arms if full else 0):
                choice[:, k, i] += np.array([-totals[f"e{k}"].sum(), totals[f"v{k}"].sum(), totals[f"t{k}"].sum()])
    x, x2, x3, x_soon = sums
    return CovariateEvidence(
        names, old=counts[0], soon=counts[1], x=x, x2=x2, x3=x3, x_soon=x_soon, choice=choice if full else None
    )


def _shape(source: TableRows, sums: dict[str, Array]) -> OutcomeShape:
    """Sum up how outcomes are spread about their arm's mean."""
    mean, sd = mean_and_sd({name: table.sum(axis=0) for name, table in sums.items()})
    rows = source.coded.filter(source.coded.arrived.notnull())
    y = rows.outcome - by_arm(rows.code, source.anchors)
    z = (y - by_arm(rows.code, mean)) / by_arm(rows.code, sd)
    scaled = engine_of(rows).once(rows.select(code=rows.code, z=z))
    z = scaled.z
    totals: dict[str, ir.Scalar] = {
        "lowest": z.min(), "highest": z.max(), "cubes": (z * z * z).sum(), "fourths": (z * z * z * z).sum(),
    }  # fmt: skip
    for i, away in enumerate((-z, z)):
        far = (away > AT_MEAN).ifelse(away, z * 0)
        totals |= {f"n{i}": (away > AT_MEAN).ifelse(z * 0 + 1, z * 0).sum(), f"away{i}": far.sum()}
        totals |= {f"root{i}": far.sqrt().sum()}
    columns = fetch(scaled.group_by("code").agg(**totals)).to_pydict()
    by_name = {name: np.zeros(len(source.arms)) for name in totals}
    for name, values in by_name.items():
        values[columns["code"]] = columns[name]
    sides = [[by_name[f"{name}{i}"] for name in ("n", "away", "root")] for i in (0, 1)]
    return OutcomeShape(
        lowest=np.minimum(by_name["lowest"], 0.0), highest=np.maximum(by_name["highest"], 0.0), cubes=by_name["cubes"],
        fourths=by_name["fourths"], sides=np.moveaxis(np.array(sides), 2, 0),
    )  # fmt: skip


def _chances(source: TableRows, rarest: Array) -> dict[str, Array]:
    """Sum up every arm's probabilities."""
    rows, arms = source.coded, len(source.arms)
    values = rows.select(bin=_place(source, rows), **{f"p{k}": rows[f"p{k}"] for k in range(arms)})
    values = engine_of(rows).once(values)
    sums: dict[str, ir.Scalar] = {}
    for k, bound in enumerate(rarest):
        p = values[f"p{k}"]
        # p2_0 and not p20, which would be arm 20's p
        sums |= {f"p_{k}": p.sum(), f"p2_{k}": (p * p).sum(), f"p_min_{k}": p.min(), f"h_{k}": p.sqrt().sum()}
        sums |= {
            f"h_max_{k}": p.max(),
            f"chance_{k}": (p <= (-1.0 if math.isnan(bound) else float(bound))).ifelse(p, None).sum(),
        }
    totals = fetch(values.group_by("bin").agg(**sums)).to_pydict()
    tables = {name: np.full((STRETCHES, arms), math.nan if "_" in name else 0.0)
              for name in ("p", "p2", "p_min", "h", "h_max", "chance")}  # fmt: skip
    for name, table in tables.items():
        for k in range(arms):
            table[totals["bin"], k] = [0.0 if v is None else v for v in totals[f"{name}_{k}"]]
    logs = {f"l{k}": (rows[f"p{k}"] < TINY).ifelse(TINY, rows[f"p{k}"]).ln().sum() for k in range(arms)}
    own = fetch(rows.group_by("code").agg(**logs)).to_pydict()
    log_p = np.zeros((arms, arms))
    log_p[own["code"]] = np.array([own[name] for name in logs]).T
    return {
        **{name: tables[name] for name in ("p", "p2", "p_min")},
        "h": tables["h"].sum(axis=0),
        "h_max": np.sqrt(np.nanmax(tables["h_max"], axis=0)),
        "chance": tables["chance"].sum(axis=0),
        "log_p": log_p,
    }


def _grain(source: TableRows) -> float:
    """Return the unit that all delays are multiples of."""
    rows = source.coded
    with sentences(source.name, source.query.versions):
        values = engine_of(rows).once(rows.select(delay=length_between(rows.arrived, rows.assigned)))
        late = values.filter(values.delay > 0)
        ends = fetch(late.aggregate(shortest=late.delay.min(), longest=late.delay.max())).to_pylist()[0]

        def remainder(unit: float) -> float | None:
            off = (late.delay - (late.delay / unit + 0.5).floor() * unit).abs()
            least = (off > UNIT_ROUNDING * unit).ifelse(off, None).min()
            smallest: float | None = fetch(late.aggregate(least=least)).to_pylist()[0]["least"]
            return smallest

        return grain_of(ends["shortest"] or 0.0, ends["longest"] or 0.0, remainder)


def arrival_counts(source: TableRows) -> ArrivalCounts | None:
    """Count rows by delay and age, on a scale that is fine for short delays and coarse for long ones.

    For events, the delay is that of the first event of an assignment.
    """
    rows, clock = source.coded, source.clock
    with sentences(source.name, source.query.versions):
        delay = length_between(rows.arrived if source.within is None else rows["first"], rows.assigned)
        about = fetch(rows.aggregate(longest=delay.max(), mean=delay.mean())).to_pylist()[0]
        bins = DelayBins.of(about["mean"] or 0.0, about["longest"] or 0.0)
        if bins is None:
            return None
        age = length_between(literal(clock, source.last_look, rows.assigned), rows.assigned)
        binned = rows.select(
            code=rows.code,
            delay=((delay / bins.unit + 1).ln() / bins.step - BIN_ROUNDING).ceil().cast("int32"),
            age=((age / bins.unit + 1).ln() / bins.step + BIN_ROUNDING).floor().cast("int32"),
        )
        cells = fetch(binned.group_by("code", "delay", "age").agg(n=binned.count()))
    delays, ages, n = floats(cells["delay"]), floats(cells["age"]), floats(cells["n"])
    arrived_in = np.where(np.isnan(delays), NOT_ARRIVED, delays).astype(np.intp)
    counts = np.zeros((len(source.arms), *bins.shape))
    at = floats(cells["code"]).astype(np.intp), arrived_in, np.clip(ages, 0, DELAY_BINS).astype(np.intp)
    np.add.at(counts, at, n)
    followed = span_of(source.clock, source.span[0], source.last_look)
    return ArrivalCounts(bins.ends, counts, followed)


def length_between(later: ir.Column, earlier: ir.Column) -> ir.FloatingColumn:
    """Return how long after one time another is, as a float: microseconds, or the clock's own numbers."""
    if earlier.type().is_timestamp():
        return engine_of(later >= earlier).microseconds(later, earlier)
    whole = later.type().is_integer() and earlier.type().is_integer()  # floats round nanoseconds since 1970
    kind = "int64" if whole else "float64"
    return (later.cast(kind) - earlier.cast(kind)).cast("float64")


def span_of(clock: Clock, start: int | float, end: int | float) -> float:
    """Return a stretch of the clock in the units of `length_between`."""
    return float(end - start) / float(clock.per_microsecond)


def _followed(source: TableRows) -> FollowUp:
    return FollowUp(*source.span, source.last_look, source.clock.whole or source.clock.unit is not None)


def early(source: TableRows, rows: ir.Table | None = None) -> ir.Table:
    """Return the rows that have been followed for at least half of the experiment; of many, the earliest."""
    rows = source.coded if rows is None else rows
    return rows.filter(rows.assigned <= _early_until(source, rows))


def _early_until(source: TableRows, rows: ir.Table) -> ir.Value:
    """Return when the last of the rows of `early` was assigned, at most."""
    return literal(source.clock, _followed(source).early_until(len(source)), rows.assigned)


def recorded(source: TableRows) -> Recorded:
    """Return the least outcome of the rows followed longest, and by arm how many they are and how many have one."""
    rows = early(source)
    with sentences(source.name, source.query.versions):
        least = rows.group_by("code").agg(low=rows.outcome.min(), n=rows.count(), arrived=rows.arrived.count())
        columns = fetch(least).to_pydict()
    low = min((value for value in columns["low"] if value is not None), default=math.nan)
    n, arrived = np.zeros((2, len(source.arms)))
    n[columns["code"]], arrived[columns["code"]] = columns["n"], columns["arrived"]
    return Recorded(low, n, arrived)


def repeats(source: TableRows) -> tuple[int, int]:
    """Return what divides how often each row is there, and how many rows differ, unless nothing divides it.

    Those that share their time with one of the first rows are looked at before all are.
    """
    timed = source.roles.assigned_at is not None
    left_out = ("first", "total") if timed else ("first", "total", "assigned", "arrived")
    rows = source.rows.drop(*(name for name in (*left_out, *source.unit_names) if name in source.rows.columns))
    when = "assigned" if timed else "outcome"
    first = rows.filter(rows[when].notnull()).select(some=when).limit(LOOKED_AT)
    with sentences(source.name, source.query.versions):
        for looked_at in (rows.semi_join(first, rows[when] == first.some), rows):
            often, different = _divisor(looked_at)
            if often < 2:
                return 1, different
    return often, different


def whole_repeats(source: TableRows) -> tuple[int, int]:
    """Return the same of whole rows, with the columns that play no role, such as the units' names."""
    table = source.query.whole
    if table is None:
        return 1, 0
    with sentences(source.name, source.query.versions):
        return _divisor(table.select(**{f"column{i}": table[name] for i, name in enumerate(table.columns)}))


def _divisor(rows: ir.Table) -> tuple[int, int]:
    each = rows.group_by(rows.columns).agg(copies=rows.count())
    counts = fetch(each.group_by("copies").agg(rows=each.count())).to_pydict()
    return math.gcd(*counts["copies"]), sum(counts["rows"])


def dependence(source: TableRows) -> Array:
    """Return the sums behind the test of whether arrival depends on the outcome (`signs.outcome_dependence`), by cell.

    Over the rows that `log_delay` has, with y the outcome minus an anchor: the sums of l^i y^j for i, j in 0, 1, 2;
    (cells, 3, 3). A cell is an arm, or an arm of a segment.
    """
    rows = early(source, source.placed)  # the engine passes over later parts of a file
    with sentences(source.name, source.query.versions):
        y = rows.outcome - by_arm(rows.code, source.anchors)
        values = engine_of(rows).once(rows.select("place", k=rows.code, l=log_delay(source, rows), y=y))
        totals = fetch(values.filter(values.l.notnull()).group_by("place", "k").agg(**delay_powers(values)))
    return dependence_of(totals, _cells(source), len(source.arms))


def log_delay(source: TableRows, rows: ir.Table) -> ir.FloatingColumn:
    """Return the logarithm of 1 + the delay of rows followed for half of the experiment, if it was within that time.

    It is null for other rows and, in a long log, for all but the earliest.
    """
    half, short = (span_of(source.clock, 0, length) for length in (_followed(source).half, _followed(source).short))
    delay = length_between(rows.arrived, rows.assigned)
    counts = (rows.assigned <= _early_until(source, rows)) & (delay <= half)
    return counts.ifelse((delay / short + 1).ln(), None)


def dependence_of(totals: pa.Table, cells: int, arms: int) -> Array:
    """Return the sums of `dependence` from a table that has them by `k` and, perhaps, `place`."""
    moments = np.zeros((cells, 3, 3))
    # a small table: Arrow would cast it by pyarrow.compute, whose import takes longer
    columns = {name: np.array(column, dtype=float) for name, column in totals.to_pydict().items()}
    cell = (columns.get("place", np.zeros(totals.num_rows)) * arms + columns["k"]).astype(np.intp)
    for i in range(3):
        for j in range(3):
            moments[cell, i, j] = np.nan_to_num(columns[f"s{i}{j}"])
    return moments


def calibration(source: TableRows, rows: ir.Table | None = None) -> tuple[Array, Array] | None:
    """Return `Evidence.excess` and `Evidence.variance`, of all rows or of some."""
    if not source.has_all_propensities:
        return None
    rows, arms = source.coded if rows is None else rows, range(len(source.arms))
    chances = [rows[f"p{k}"] for k in arms]
    square = sum((p * p for p in chances[1:]), chances[0] * chances[0])
    cube = sum((p * p * p for p in chances[1:]), chances[0] * chances[0] * chances[0])
    values = engine_of(rows).once(
        rows.select("code", *(f"p{k}" for k in arms), own=_chosen(source, rows), square=square, cube=cube)
    )
    chances = [values[f"p{k}"] for k in arms]
    excess = [(values.code == k).ifelse(1 - p, -p) for k, p in enumerate(chances)]
    excess.append(values.own - values.square)
    variance = [p * (1 - p) for p in chances] + [values.cube - values.square * values.square]
    sums = {f"e{i}": column.sum() for i, column in enumerate(excess)}
    sums |= {f"v{i}": column.sum() for i, column in enumerate(variance)}
    with sentences(source.name, source.query.versions):
        totals = fetch(values.aggregate(**sums)).to_pylist()[0]
    excess_sums, variance_sums = (
        np.array([totals[f"{name}{i}"] for i in range(len(excess))], dtype=float) for name in "ev"
    )
    return excess_sums, settled(variance_sums, len(source))
