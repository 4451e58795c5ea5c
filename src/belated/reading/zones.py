"""Time zones: a remark if some times have one and others do not."""

from __future__ import annotations

from belated.base.text import one_line
from belated.reading.inputs import Input
from belated.reading.roles import Roles


def zone_notes(assignments: Input, deliveries: Input | None, roles: Roles) -> list[str]:
    """Return that times without a zone count as UTC, if others have a zone."""
    later = assignments if deliveries is None else deliveries
    used = [(assignments, roles.assigned_at), (later, roles.arrived_at), (later, roles.recorded_at)]
    zones = {column: table.zones(column) for table, column in used if column is not None}
    zoned = [f"`{one_line(column)}`" for column, has in zones.items() if has == {True}]
    notes = []
    for column, has in zones.items():
        if has == {True, False}:
            notes.append(f"Some times of `{one_line(column)}` have no time zone; they count as UTC.")
        elif has == {False} and zoned:
            notes.append(
                f"The times of `{one_line(column)}` have no time zone, unlike those of {zoned[0]}; they count as UTC."
            )
    return notes
