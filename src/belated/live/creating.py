"""`Creation`: an experiment to be created, with every option checked before anything is stored."""

from __future__ import annotations

import getpass
import json
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from belated.base.checks import whole
from belated.base.text import one_line
from belated.live import schema
from belated.live.changing import Author
from belated.live.deciding import check_policy, policy_text
from belated.live.design import MOST_ARMS, Setup, plan_setup, read_names, read_segments, read_text
from belated.live.draws import SALT
from belated.live.errors import LiveError
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
        (key,) = session.new_ids(1)
        row = (key, self.name, "draft", secrets.token_bytes(SALT), self.setup.to_json(), None, None, session.now)
        if not session.add("experiment", [row], unless="name"):
            name = one_line(repr(self.name))
            raise LiveError(f"There is already an experiment {name} in the store; choose another name.")
        policy = policy_text(self.policy)
        session.add("arm", [(key, number, label, "offered") for number, label in enumerate(self.arms)])
        session.add("segment", [(key, number, label) for number, label in enumerate(self.segments)])
        session.add("rule", [(key, 1, policy, session.now)])
        if self.setup.outcome.is_events:
            session.run(schema.BY_TIME)
        detail: dict[str, object] = {"arms": self.arms, "policy": json.loads(policy), "setup": self.setup.to_dict()}
        if self.segments:
            detail["segments"] = self.segments
        self.who.note(session, key, "create", **detail)


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
    """Return the setup that the options of `Store.create` describe; raise if an option is invalid."""
    read_text("name", name)
    labels = read_names("arms", arms, MOST_ARMS)
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
