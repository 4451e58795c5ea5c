"""The log that a command's options name."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from belated.base.checks import one_of
from belated.base.errors import OptionError

if TYPE_CHECKING:
    from belated.reading.source import Source


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Where a log is, and which columns of it mean what; named as the options are."""

    source: str
    outcomes: str | None
    table: str | None
    as_of: str | None
    duplicates: str
    events: bool
    window: str | None
    measure: str | None
    arm: str | None
    outcome: str | None
    propensity: str | None
    assigned_at: str | None
    arrived_at: str | None
    delay: str | None
    key: str | None
    arms: str | None

    def read(self) -> Source:
        """Return the log, having said on stderr what was guessed."""
        from belated.reading.read import read
        from belated.reading.rows_query import DUPLICATES, MEASURES

        if self.measure is not None and not self.events:
            raise OptionError("`measure` is given without `events`; it says what of the events is the outcome.")
        log = read(
            self.source,
            self.outcomes,
            table=self.table,
            arm=self.arm,
            outcome=self.outcome,
            propensity=self.propensity,
            assigned_at=self.assigned_at,
            arrived_at=self.arrived_at,
            delay=self.delay,
            key=self.key,
            arms=None if self.arms is None else next(csv.reader([self.arms], skipinitialspace=True), []),
            as_of=self.as_of,
            duplicates=one_of("duplicates", self.duplicates, DUPLICATES),
            events=one_of("events", self.measure, MEASURES) if self.measure else self.events,
            window=self.window,
        )
        for words in (log.roles.line(cli=True), *log.notes):
            typer.echo(words, err=True)
        return log
