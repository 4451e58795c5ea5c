"""`Data`: the interface of every log, whether its rows are in memory or in a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from belated.base.columns import Array, ColumnLike, Label
from belated.base.errors import LogError, OptionError
from belated.base.text import count
from belated.log.clock import Clock, Moment
from belated.log.durations import WindowLike
from belated.summaries.caps import Cap, cap_text
from belated.summaries.evidence import Evidence
from belated.summaries.maturing import Measure
from belated.summaries.sums import Parts, Sums

if TYPE_CHECKING:
    from belated.log.log import Log


class Data(ABC):
    """The log of an experiment: a `Log` in memory, or a `Source` whose rows stay in a table.

    Statistics, checks and reports use only this interface. Every method answers as of `moment`: rows assigned later are
    ignored, and outcomes that arrived later count as missing. Two logs with the same rows give the same answers up to
    rounding; only the times of `even_moments` may differ.

    Attributes
    ----------
    arms : tuple
        The labels of the arms, in the order of every array by arm.
    clock : Clock
        The kind of time of the log; times are numbers of the clock.
    moment : int, float or None
        The as-of time; None if everything that ever arrived counts.
    name : str
        The name of the log in messages.
    within : str or None
        The window in words, if outcomes are events within a window.
    measure : str or None
        What outcomes are, if they are made of events: "indicator", "count" or "sum".
    windows : tuple
        The windows that were asked for, if there are several.
    cap : float or None
        The cap on outcomes; None if there is none.
    notes : tuple of str
        Remarks from reading, such as outcomes that belong to no assignment.
    files : tuple of str
        The files that contain the rows, which output must not overwrite.

    A log whose rows have segments or covariates, known at assignment, keeps its sums by segment and arm: every `Sums`
    that it returns has `Sums.segments`, and those of its `segments` are the same at every time. Which small segments
    are merged, and how likely their outcomes arrive, depends only on the number of rows and outcomes of each segment
    and arm at the as-of time (`segments.lay_out`),
    rows without a segment are the segment "(missing)", and estimates say so. Checks, doubts and counts by arm are of
    all rows together.
    """

    arms: tuple[Label, ...]
    clock: Clock
    moment: int | float | None
    name: str
    within: str | None
    measure: Measure | None
    windows: tuple[WindowLike, ...] = ()
    cap: float | None
    notes: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    @abstractmethod
    def engine(self) -> str:
        """Where the rows are: "memory", or the name of a database engine."""

    @property
    @abstractmethod
    def outcome_name(self) -> str:
        """The name of the outcome."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows at the as-of time."""

    @property
    @abstractmethod
    def has_all_propensities(self) -> bool:
        """Whether the probability of every arm is known, not only of the chosen one."""

    @property
    @abstractmethod
    def last_look(self) -> int | float:
        """The time up to which outcomes are known: `moment`, or the last time in the log."""

    @property
    @abstractmethod
    def segments(self) -> tuple[Label, ...]:
        """The labels of the segments, after small ones were merged; empty if there are none."""

    @abstractmethod
    def log(self) -> Log:
        """Return the log with its rows in memory."""

    @property
    def is_maturing(self) -> bool:
        """Whether outcomes are events, and rows whose window is still open count for the ages they have reached."""
        return False

    def closed(self) -> Data:
        """Return the same experiment with only the rows whose window has closed, if outcomes are events."""
        return self

    def hold(self) -> bool:
        """Bring the rows into memory if that pays for the many questions to come; return whether they are there."""
        return True

    @abstractmethod
    def at_number(self, moment: int | float) -> Data:
        """Return the same experiment as of another time, given as a number of its clock."""

    @abstractmethod
    def capped(self, cap: float | None) -> Data:
        """Return the same experiment with another cap on outcomes; None removes the cap."""

    @abstractmethod
    def with_arrival(self, chance: ColumnLike | str) -> Data:
        """Return the same experiment with the probability that each outcome ever arrives: an array or a column."""

    @abstractmethod
    def with_target(self, target: object) -> tuple[Log, object]:
        """Return the log in memory, and the probabilities of a target policy in its rows: an array or columns."""

    @abstractmethod
    def above_cap(self, moments: Array | None = None) -> Array:
        """Return the number of arrived outcomes above the cap, by time and arm; None is the as-of time."""

    @abstractmethod
    def sums(
        self, parts: Sequence[Parts], moments: Array | None = None, *, plain: bool = True, history: Sequence[Log] = ()
    ) -> list[list[Sums]]:
        """Return the sums for each pair of weights and outcome model, at each time.

        Parameters
        ----------
        parts : sequence of (weights, outcome model)
        moments : array, optional
            Ascending numbers of the clock; by default the as-of time of the log.
        plain : bool
            Whether to include the sums that only estimators not of Hajek type need.
        history : sequence of Log
            Other parts of the same experiment, whose outcomes the running mean uses; in memory only.
        """

    @abstractmethod
    def evidence(self) -> Evidence:
        """Return the counts and sums from which every check is computed."""

    @abstractmethod
    def even_moments(self, how_many: int) -> Array:
        """Return times that are evenly spaced over the rows or the time; the last is the as-of time."""

    @abstractmethod
    def doubts(self) -> list[str]:
        """Return sentences on signs that every estimate from the log is biased."""

    @abstractmethod
    def copies(self) -> int:
        """Return how many times every row is there; 1 if some are there once."""

    @abstractmethod
    def oddities(self) -> list[str]:
        """Return sentences on what looks like a mistake in the log, or in how it was read."""

    @abstractmethod
    def contexts(self) -> list[str]:
        """Return what shows that the policy looked at the unit, in words; it does not matter to all weights."""

    def doubts_when_estimated(self, *, follows_units: bool) -> list[str]:
        """Return the doubts that estimates report as warnings.

        `follows_units` says whether weights depend on the row's own probabilities. By default, the only doubt is that
        the policy looked at the unit.
        """
        return self.contexts() if follows_units else []

    @property
    def columns(self) -> Mapping[str, object]:
        """The column for each role; empty for arrays."""
        return {}

    @property
    def how_read(self) -> list[tuple[str, str]]:
        """Names and values for a report: where the rows are, and how they were summed."""
        return [
            ("source", self.name),
            *self._how_columns_were_read(),
            ("rows", count(len(self), "row")),
            ("as of", self.as_of_text or "everything that has arrived"),
            *([] if self.cap is None else [("cap", cap_text(self.cap))]),
            *([] if self._lag_text is None else [("lag", f"events are recorded within {self._lag_text}")]),
            ("engine", f"{self.engine}, {self._how_summed}"),
        ]

    @abstractmethod
    def _how_columns_were_read(self) -> list[tuple[str, str]]:
        """Return names and values of `how_read` on columns."""

    @property
    @abstractmethod
    def _lag_text(self) -> str | None:
        """The longest time from an event to its record in words; None if there is none."""

    @property
    @abstractmethod
    def _how_summed(self) -> str:
        """How the rows are summed, in words."""

    def title_end(self, span: tuple[int | float, int | float] | None) -> str:
        """Return the end of a printed log's title, from the times of the first and the last assignment, if any."""
        assigned = "" if span is None else ", assigned from {} to {}".format(*map(self.clock.text, span))
        as_of = "" if self.as_of_text is None else f", as of {self.as_of_text}"
        known = "" if self.has_all_propensities else "; only the chosen arm's propensity is known"
        cap = "" if self.cap is None else f"; outcomes capped at {cap_text(self.cap)}"
        return f"{assigned}{as_of}{known}{cap}"

    def refuse_no_rows(self) -> None:
        """Raise if there are no rows at the as-of time."""
        if not len(self):
            raise LogError("The log has no rows at its as-of time.")

    @property
    def capping(self) -> Cap | None:
        """The cap and the number of outcomes above it; None if there is no cap."""
        return None if self.cap is None else Cap(self.cap, self.above_cap()[-1])

    @property
    def as_of(self) -> Moment | None:
        """The as-of time; None if everything that ever arrived counts."""
        return None if self.moment is None else self.clock.show(self.moment)

    @property
    def as_of_text(self) -> str | None:
        """The as-of time as text; None if there is none."""
        return None if self.moment is None else self.clock.text(self.moment)


def require_data(log: object, cap: float | None = None) -> Data:
    """Return `log`, with the cap if one is given; raise if it is not a log."""
    if not isinstance(log, Data):
        raise OptionError(f"`log` is of type {type(log).__name__}; it must be a Log, or a table from `read`.")
    return log if cap is None else log.capped(cap)
