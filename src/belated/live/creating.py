"""`Creation`: an experiment to be created, with every option checked before anything is stored."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from belated.base.checks import whole
from belated.base.errors import OptionError, argument
from belated.live import changing
from belated.live.calls import several
from belated.live.changing import Author
from belated.live.deciding import check_policy
from belated.live.design import MOST_ARMS, Setup, plan_setup, read_segments, read_text
from belated.live.outcomes import Outcome
from belated.simulation.policies import Policy

if TYPE_CHECKING:
    from belated.live.storage import Session
    from belated.sequences.design import KindOption


class Creation(NamedTuple):
    """An experiment to be created; `add` inserts it."""

    name: str
    arms: list[str]
    segments: list[str]
    policy: Policy
    setup: Setup
    who: Author

    def add(self, session: Session) -> None:
        """Insert the experiment, which has not started."""
        changing.create(
            session,
            self.name,
            arms=self.arms,
            segments=self.segments,
            policy=self.policy,
            setup=self.setup,
            who=self.who,
        )


def plan_creation(  # noqa: PLR0913
    name: str,
    *,
    arms: Sequence[str],
    policy: Policy,
    outcome: Outcome,
    segments: Sequence[str] | None = None,
    baseline: str | None = None,
    planned_rows: int = 10_000,
    level: float = 0.95,
    kind: KindOption | None = None,
    target: int | None = None,
    every: int | None = None,
    seconds: float = 2.0,
    author: str | None = None,
    reason: str = "",
) -> Creation:
    """Return what the options of `Store.create` amount to; raise if one of them cannot be."""
    read_text("name", name)
    labels = [read_text("arms", arm) for arm in ([arms] if isinstance(arms, str) else several("arms", arms))]
    if len(set(labels)) != len(labels) or not 1 <= len(labels) <= MOST_ARMS:
        raise OptionError(f"{argument('arms')} must be 1 to {MOST_ARMS} different names.")
    named = [] if segments is None else read_segments(segments)
    setup = plan_setup(
        labels, outcome, baseline=baseline, planned_rows=planned_rows, level=level, kind=kind, target=target,
        every=_every(every, policy), seconds=seconds, segmented=bool(named),
    )  # fmt: skip
    return Creation(
        name=name,
        arms=labels,
        segments=named,
        policy=check_policy(policy, labels, outcome),
        setup=setup,
        who=author_of(author, reason),
    )


def author_of(author: str | None, reason: str, seen: int | None = None) -> Author:
    """Return who changes something: by default the user that runs the process."""
    if author is None:
        try:
            author = getpass.getuser()
        except (KeyError, OSError, ImportError):  # a process without a user's name
            author = "unknown"
    return Author(author, reason, seen)


def _every(every: int | None, policy: Policy) -> int | None:
    """Return the rows of a tick: those of a policy's batch, if it has one."""
    if every is not None:
        return whole("every", every, least=1)
    return policy.batch if isinstance(policy, Policy) and policy.batch > 1 else None
