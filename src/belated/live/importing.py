"""Importing: a running experiment from a table with logged probabilities, to go on with here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from belated.base.checks import Options
from belated.base.columns import Array, ByArm
from belated.base.errors import LogError, OptionError, argument
from belated.live.creating import Creation, plan_creation
from belated.live.design import Setup, add_version, read_text, read_unit, snapshot
from belated.live.learning import nothing
from belated.live.outcomes import Outcome
from belated.live.records import Version, moment
from belated.log.log import Log
from belated.log.segments import unscaled
from belated.simulation.policies import Policy
from belated.summaries.segments import MISSING

if TYPE_CHECKING:
    from belated.live.experiment import Experiment
    from belated.live.storage import Session
    from belated.live.store import Store
    from belated.reading.source import Source
    from belated.sequences.design import KindOption

#: The column by which rows of the log are found in the table again.
_ROW_COLUMN = "belated row"


class Imported(NamedTuple):
    """A running experiment of a table, read and checked; `add` stores it."""

    creation: Creation
    log: Log
    units: list[str]
    rows: list[int]  # of the table

    def check_past(self, now: int) -> None:
        """Raise if a time is in the future: the store's own times must be later than all times in it."""
        assigned, arrived = _stamps(self.log, now)
        for what, late in (("was assigned", assigned > now), ("has its outcome", self.log.arrived & (arrived > now))):
            if late.any():
                raise LogError(
                    f"Row {self.rows[int(late.argmax())]} {what} later than now, {moment(now):%Y-%m-%d %H:%M} UTC; the "
                    "times of an import must be past, and UTC unless they have a zone."
                )

    def add(self, store: Store) -> Experiment:
        """Store the experiment, and make a version from the outcomes that had arrived."""
        name, policy = self.creation.name, self.creation.policy
        with store.storage.writing() as session:
            self.check_past(session.now)
            self.creation.add(session)
            key = _fill(session, name, self.log, self.units, self.creation.setup)
            self.creation.who.note(session, key, "import", rows=len(self.units))
        exp = store.experiment(name, policy=policy)
        exp.tick()
        return exp


def import_log(
    store: Store, name: str, source: object, *, policy: Policy, outcome: Outcome, **options: Any
) -> Experiment:
    """Read a table as a running experiment, as `Store.import_table` describes it, and store it."""
    return read_import(name, source, policy=policy, outcome=outcome, **options).add(store)


def read_import(  # noqa: PLR0913
    name: str,
    source: object,
    *,
    policy: Policy,
    outcome: Outcome,
    unit: str | None = None,
    segment: str | Sequence[str] | None = None,
    baseline: str | None = None,
    planned_rows: int | None = None,
    level: float = 0.95,
    kind: KindOption | None = None,
    target: int | None = None,
    every: int | None = None,
    seconds: float = 2.0,
    author: str | None = None,
    reason: str = "",
    outcome_column: str | None = None,
    **columns: Any,
) -> Imported:
    """Read a table with the probability of every arm in each row as a running experiment; nothing is stored yet.

    Rows become decisions, and rows in succession with the same probabilities, in each segment, a policy version. The
    policy continues from the outcomes that had arrived. Imported arms cannot be drawn again, and `Store.verify` does
    not try. `Store.import_table` describes the options.
    """
    read_text("name", name)
    if not isinstance(outcome, Outcome):
        raise OptionError(f"{argument('outcome')} must be declared, such as bl.live.binary().")
    if outcome.is_events:
        raise OptionError(
            f"{argument('outcome')} is of events, which cannot be imported; tell them to a new experiment."
        )
    log, rows, units = _read(source, unit, segment, columns | {"outcome": outcome_column})
    creation = plan_creation(
        name, arms=[str(arm) for arm in log.arms], policy=policy, outcome=outcome, segments=_segments(log),
        baseline=baseline, planned_rows=2 * len(rows) if planned_rows is None else planned_rows, level=level,
        kind=kind, target=target, every=every, seconds=seconds, author=author,
        reason=reason or f"imported {len(rows):,} rows",
    )  # fmt: skip
    _check_outcomes(log, rows, outcome)
    return Imported(creation, log, [units[row] for row in rows], rows)


def _check_outcomes(log: Log, rows: list[int], outcome: Outcome) -> None:
    """Raise if an outcome is none of the declared kind; say of which row it is."""
    for place in np.flatnonzero(log.arrived).tolist():
        try:
            outcome.read(float(log.outcome[place]))
        except OptionError as error:
            raise LogError(f"The outcome of row {rows[place]} cannot be: {error}") from None


def _read(
    source: object, unit: str | None, segment: str | Sequence[str] | None, columns: Options
) -> tuple[Log, list[int], list[str]]:
    """Return the log, the table's row of each of its rows, and the table's units."""
    import pyarrow as pa

    from belated.reading.read import read

    wanted = [segment] if isinstance(segment, str) else list(segment or ())
    try:
        opened = read(source, segment=wanted or None, key=unit, **columns)  # so that the column of units is read, too
    except LogError as error:
        raise error.renamed(key="unit") from None
    frame = opened.assignments()
    units = [f"row-{i}" for i in range(frame.num_rows)]
    if unit is not None:
        units = [_unit(unit, row, each) for row, each in enumerate(frame[unit].to_pylist())]
    twice = next((each for each, n in Counter(units).items() if n > 1), None)
    if twice is not None:
        place = units.index(twice)
        raise LogError(f"Column {unit!r} has the unit of row {place} in other rows, too; each unit must be in one row.")
    frame = frame.append_column(_ROW_COLUMN, pa.array(np.arange(frame.num_rows, dtype=np.float64)))
    roles = opened.roles
    log = read(
        frame, arm=roles.arm, outcome=roles.outcome, assigned_at=roles.assigned_at, arrived_at=roles.arrived_at,
        delay=roles.delay, segment=wanted or None, covariates=[_ROW_COLUMN], arms=opened.arms,
        propensity=_chances(opened), propensity_unit=columns.get("propensity_unit", "fraction"),
    ).log()  # fmt: skip
    if not log.has_all_propensities:
        raise LogError("The table has only the chosen arm's probability; an import needs every arm's in each row.")
    if log.covariates is None:
        raise LogError("The table has one row; an import needs several.")
    return log, np.rint(unscaled(log.covariates, _ROW_COLUMN)).astype(int).tolist(), units


def _unit(column: str, row: int, value: object) -> str:
    """Return a unit of a table as text; columns of whole numbers may have come as floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        if value is not None and value == value:
            return read_unit(value if isinstance(value, int) else str(value))
    except OptionError as error:
        raise LogError(f"Row {row} of column {column!r} is no unit: {error}") from None
    raise LogError(f"Column {column!r} is empty in row {row}; every row must have its unit.")


def _segments(log: Log) -> list[str] | None:
    """Return the names of a log's segments, None if it has none; every row must have one."""
    if log.segment_column is None:
        return None
    labels = log.segment_column.labels
    if MISSING in labels:
        row = int((log.segment_column.code == labels.index(MISSING)).argmax())
        raise LogError(f"The segment of row {row} is missing; an import needs one in each row, such as 'unknown'.")
    return [str(label) for label in labels]


def _chances(opened: Source) -> str | ByArm[str] | ByArm[float] | None:
    """Return where the probabilities are: a column for each arm, or one with all of them."""
    role = opened.roles.propensity
    if role is None or role.kind != "wide" or role.labels is None:
        return None if role is None else role.split or role.columns[0]
    return {**dict(zip(role.labels, role.columns, strict=True)), **role.extra}  # of arms that were never drawn, too


def _fill(session: Session, name: str, log: Log, units: list[str], setup: Setup) -> int:
    """Insert versions, decisions and outcomes; then the experiment runs. Return its number."""
    about = snapshot(session, name)
    assigned, arrived = _stamps(log, session.now)
    order = np.argsort(assigned, kind="stable")
    segment = None if log.segment_column is None else log.segment_column.code
    number = np.empty(len(order), np.int64)
    known = nothing(len(about.arms), len(about.segments))
    stretches = _stretches(log.propensity[order], np.zeros(len(order), int) if segment is None else segment[order])
    for place, (first, stop, p) in enumerate(stretches, 1):
        number[first:stop] = place
        version = Version(
            number=place, rule=1, step=1, watermark=session.watermark, made_at=int(assigned[order[first]]),
            offered=about.offered, probabilities=p, counts=known.counts, totals=known.totals, cause="import",
            steps=known.steps,
        )  # fmt: skip
        add_version(session, about.id, version)
    keys = session.new_ids(len(order))
    outcome, has_arrived = log.outcome, log.arrived
    decisions, outcomes = [], []
    for key, row, version_number in zip(keys, order.tolist(), number.tolist(), strict=True):
        at, group = int(assigned[row]), None if segment is None else int(segment[row])
        decisions.append((key, about.id, units[row], int(log.code[row]), version_number, at, group))
        if has_arrived[row]:
            value = setup.outcome.read(float(outcome[row]))
            outcomes.append((about.id, key, "", 0, value, None, max(int(arrived[row]), at)))
    session.add("decision", decisions)
    session.add("outcome", [(key, *row) for key, row in zip(session.new_ids(len(outcomes)), outcomes, strict=True)])
    session.run("update experiment set state = 'running' where id = ?", about.id)
    return about.id


def _stretches(p: Array, segment: Array) -> Iterator[tuple[int, int, tuple[float, ...]]]:
    """Give stretches of rows in which every segment has one vector of probabilities: from, to, and that of each.

    A segment without rows in a stretch keeps its last one; before its first row, its probabilities are 0.
    """
    table, first, used = np.zeros((int(segment.max()) + 1, p.shape[1])), 0, set[int]()
    for row, (chances, group) in enumerate(zip(p, segment.tolist(), strict=True)):
        if group in used and (table[group] != chances).any():
            yield first, row, tuple(table.ravel().tolist())
            first, used = row, set()
        table[group] = chances
        used.add(group)
    yield first, len(p), tuple(table.ravel().tolist())


def _stamps(log: Log, now: int) -> tuple[Array, Array]:
    """Return when rows were assigned and arrived in microseconds; steps are seconds, and the last one is now."""
    assigned, arrived = log.assigned_numbers, log.arrived_numbers
    if log.clock.unit is not None:
        given, taken = (log.clock.show_many(each).astype("datetime64[us]") for each in (assigned, arrived))
        return given.view(np.int64), taken.view(np.int64)
    known = arrived[log.arrived]
    last = max(float(assigned.max()), float(known.max()) if len(known) else 0.0)

    def shifted(steps: Array) -> Array:
        behind = (last - steps.astype(np.float64)) * 1e6
        return np.asarray(now - np.where(np.abs(behind) < 1e17, behind, 0.0).astype(np.int64))  # never: not used

    return shifted(assigned), shifted(arrived)
