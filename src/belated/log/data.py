"""Data: what every log of an experiment can be asked, whether it is in memory or in a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from belated.base.columns import Array, Label
from belated.base.errors import OptionError
from belated.log.clock import Clock, Moment
from belated.summaries.caps import Cap
from belated.summaries.evidence import Evidence
from belated.summaries.sums import Parts, Sums

if TYPE_CHECKING:
    from belated.log.log import Log


class Data(ABC):
    """An experiment's log, wherever it is: a `Log` in memory, or a `Source`, whose rows stay in a table.

    Statistics, checks and reports ask a log these questions and nothing else. Each method answers as of `moment`: rows
    assigned later do not exist, and outcomes that arrived later are still out. Two logs that hold the same rows give
    the same answers, up to rounding; only where `even_moments` puts its moments is their own affair.

    Attributes
    ----------
    arms : tuple
        The arms' labels, in the order of every array by arm.
    clock : Clock
        What kind of time the log keeps; moments are numbers of it.
    moment : int, float or None
        The moment the log is looked at; None: everything that ever arrived counts.
    name : str
        What the log is called in sentences.
    within : str or None
        Of events, the window in words: the outcome is what happened within it.
    cap : float or None
        What larger outcomes count as, in every answer; None: as they are.
    notes : tuple of str
        What was noticed on reading, such as outcomes that belong to no assignment.
    files : tuple of str
        The files that the rows are in, which no answer may be written over.
    """

    arms: tuple[Label, ...]
    clock: Clock
    moment: int | float | None
    name: str
    within: str | None
    cap: float | None
    notes: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    @abstractmethod
    def engine(self) -> str:
        """What holds the rows: "memory", or the name of a database engine."""

    @property
    @abstractmethod
    def outcome_name(self) -> str:
        """What the outcome is called."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows exist."""

    @property
    @abstractmethod
    def has_all_propensities(self) -> bool:
        """Whether every arm's probability is known, not only the chosen one's."""

    @property
    @abstractmethod
    def last_look(self) -> int | float:
        """The moment up to which outcomes are known: `moment`, or the last time in the log."""

    @abstractmethod
    def log(self) -> Log:
        """Return the rows in memory."""

    @abstractmethod
    def at_number(self, moment: int | float) -> Data:
        """Return the same experiment as it stood at a moment given as a number of its clock."""

    @abstractmethod
    def capped(self, cap: float | None) -> Data:
        """Return the same experiment with outcomes above a cap counted as the cap; None: as they are."""

    @abstractmethod
    def above_cap(self, moments: Array | None = None) -> Array:
        """Return, by moment and arm, how many outcomes that have arrived are above the cap; None: as of its own."""

    @abstractmethod
    def sums(
        self, parts: Sequence[Parts], moments: Array | None = None, *, plain: bool = True, history: Sequence[Log] = ()
    ) -> list[list[Sums]]:
        """Return, for each pair of weights and outcome model, the sums at each moment.

        Parameters
        ----------
        parts : sequence of (weights, outcome model)
        moments : array, optional
            Ascending numbers of the clock; by default the log's own moment.
        plain : bool
            Whether to make the sums that only estimators that are not of Hajek's kind need.
        history : sequence of Log
            Other parts of the same experiment, whose outcomes the running mean may see; in memory only.
        """

    @abstractmethod
    def evidence(self) -> Evidence:
        """Return the counts and sums from which every check is read."""

    @abstractmethod
    def even_moments(self, how_many: int) -> Array:
        """Return moments evenly spaced over the rows or the time, the last being when the log is looked at."""

    @abstractmethod
    def doubts(self) -> list[str]:
        """Return what in the log as a whole speaks against any estimate from it, in words."""

    @abstractmethod
    def oddities(self) -> list[str]:
        """Return what in the log looks like a mistake in it, or in how it was read, in words."""

    def doubts_when_estimated(self) -> list[str]:
        """Return the doubts that `estimate` says by itself: none, unless the log looks for them on its own."""
        return []

    @property
    def columns(self) -> Mapping[str, str | list[str]]:
        """Which column plays which role; empty for arrays."""
        return {}

    @property
    @abstractmethod
    def how_read(self) -> list[tuple[str, str]]:
        """What a report says of where the rows are and how they were summed, as names and values."""

    @property
    def capping(self) -> Cap | None:
        """The cap, and how many outcomes are above it; None if there is none."""
        return None if self.cap is None else Cap(self.cap, self.above_cap()[-1])

    @property
    def as_of(self) -> Moment | None:
        """The moment the log is looked at; None: everything that ever arrived counts."""
        return None if self.moment is None else self.clock.show(self.moment)

    @property
    def as_of_text(self) -> str | None:
        """The moment the log is looked at, as text; None if there is none."""
        return None if self.moment is None else self.clock.text(self.moment)


def require_data(log: object, cap: float | None = None) -> Data:
    """Return `log` if it is a log, in memory or in a table; with another cap, if one is given."""
    if not isinstance(log, Data):
        raise OptionError(f"`log` is a {type(log).__name__}; it must be a Log, or what `read` gives.")
    return log if cap is None else log.capped(cap)
