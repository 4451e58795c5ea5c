"""Changing: states, arms and policies; each change has a time, an author and a reason, and is kept."""

from __future__ import annotations

import json

from belated.base.errors import OptionError, argument
from belated.base.text import one_line
from belated.live.deciding import decide, policy_of, policy_text
from belated.live.design import MOST_ARMS, Snapshot, add_version, read_segments, read_text, snapshot
from belated.live.errors import ClosedError, DamagedError, LiveError, OutdatedError
from belated.live.learning import nothing
from belated.live.records import ArmState, ChangeKind, State, Version
from belated.live.storage import Session
from belated.live.ticking import FindPolicy, changed_version, hold
from belated.simulation.policies import Policy


class Author:
    """Who makes a change, and why; `seen` is the number of changes when the change was decided upon, or None."""

    def __init__(self, author: str, reason: str, seen: int | None = None) -> None:
        self.author = read_text("author", author)
        self.reason = read_text("reason", reason, 2000) if reason else ""
        self.seen = seen

    def note(self, session: Session, experiment: int, what: ChangeKind, **detail: object) -> None:
        """Add an entry to the audit, after those that it has waited for: they may have begun later."""
        (key,) = session.new_ids(1)
        if what != "erase":  # which waits for nobody
            ((last,),) = session.run("select max(id) from change where experiment = ?", experiment)
            key = max(key, (last or 0) + 1)
        session.add("change", [(key, experiment, what, json.dumps(detail), self.author, self.reason, session.now)])


def start(session: Session, name: str, find_policy: FindPolicy, who: Author) -> None:
    """Begin: make the first version."""
    about = _held(session, name, who)
    if about.state != "draft":
        raise LiveError(f"{name!r} is {about.state}; only a draft can be started.")
    known, rule = nothing(len(about.arms), len(about.segments)), _last_rule(session, about.id)
    policy = find_policy(session, about.id, rule)
    p = decide(policy, about.labels, about.offered, known, about.setup.planned, about.segments)
    version = Version(
        number=1, rule=rule, step=known.step, watermark=session.watermark, made_at=session.now, offered=about.offered,
        probabilities=tuple(p), counts=known.counts, totals=known.totals, cause="start", steps=known.steps,
    )  # fmt: skip
    add_version(session, about.id, version)
    _set_state(session, about, "running")
    who.note(session, about.id, "start")


def stop(session: Session, name: str, final: str | None, who: Author) -> None:
    """Take no new units; later units get the final arm, which is not logged."""
    about = _held(session, name, who)
    if about.state != "running":
        raise LiveError(f"{name!r} is {about.state}; only a running experiment can be stopped.")
    number = None if final is None else about.arm(final, option="final").number
    if number is not None and about.arms[number].state == "dropped":
        raise OptionError(
            f"{argument('final')} is {one_line(repr(final))}, which was dropped for good; choose another."
        )
    session.run("update experiment set final = ? where id = ?", number, about.id)
    _set_state(session, about, "stopped")
    who.note(session, about.id, "stop", final=final)


def close(session: Session, name: str, who: Author) -> None:
    """Take nothing any more."""
    about = _held(session, name, who)
    if about.state == "closed":
        raise ClosedError(f"{name!r} is already closed.")
    _set_state(session, about, "closed")
    who.note(session, about.id, "close")


def add_arm(session: Session, name: str, label: str, find_policy: FindPolicy, who: Author) -> str | None:
    """Add an arm and offer it; return what is wrong with the policy, if it cannot have it."""
    about = _changeable(session, name, who)
    if label in about.labels:
        raise OptionError(f"{argument('arm')} is {one_line(repr(label))}, which the experiment has; choose a new name.")
    if len(about.arms) >= MOST_ARMS:
        raise OptionError(f"An experiment has at most {MOST_ARMS} arms; their numbers are never used again.")
    session.add("arm", [(about.id, len(about.arms), label, "offered")])
    who.note(session, about.id, "add arm", arm=label)
    return _follow(session, name, find_policy, f"arm added: {label}")


def add_segment(session: Session, name: str, label: str, find_policy: FindPolicy, who: Author) -> str | None:
    """Add a segment, of which nothing is known yet; return what is wrong with the policy, if it fails."""
    about = _changeable(session, name, who)
    if not about.segments:
        raise LiveError(f"{name!r} has no segments; they are declared when an experiment is created.")
    if label in about.segments:
        raise OptionError(f"{argument('segment')} is {one_line(repr(label))}, which the experiment has already.")
    read_segments([*about.segments, label])
    session.add("segment", [(about.id, len(about.segments), label)])
    who.note(session, about.id, "add segment", segment=label)
    return _follow(session, name, find_policy, f"segment added: {label}")


def set_arm(
    session: Session, name: str, label: str, state: ArmState, find_policy: FindPolicy, who: Author
) -> str | None:
    """Offer, pause or drop an arm; return what is wrong with the policy, if it cannot do without it."""
    about = _changeable(session, name, who)
    arm = about.arm(label)
    if arm.state == "dropped":
        raise LiveError(f"The arm {one_line(repr(label))} was dropped and cannot come back; add a new one.")
    if arm.state == state:
        return about.problem
    if state != "offered" and about.offered == (arm.number,):
        raise LiveError(f"{one_line(repr(label))} is the only arm that is offered; stop the experiment instead.")
    session.run("update arm set state = ? where experiment = ? and number = ?", state, about.id, arm.number)
    words = _ARM_CHANGES[state]
    who.note(session, about.id, words, arm=label)
    return _follow(session, name, find_policy, f"{words}: {label}")


_ARM_CHANGES: dict[ArmState, ChangeKind] = {"offered": "resume arm", "paused": "pause arm", "dropped": "drop arm"}


def set_policy(session: Session, name: str, policy: Policy, who: Author) -> str | None:
    """Use another policy from now on; return what is wrong with it, if it fails."""
    about = _changeable(session, name, who)
    rule = _last_rule(session, about.id) + 1
    session.add("rule", [(about.id, rule, policy_text(policy), session.now)])
    who.note(session, about.id, "set policy", policy=json.loads(policy_text(policy)))
    problem = changed_version(session, about, rule, policy, "policy set")
    session.run("update experiment set problem = ? where id = ?", problem, about.id)
    return problem


def _last_rule(session: Session, experiment: int) -> int:
    """Return the number of the policy that was set last."""
    ((last,),) = session.run("select max(number) from rule where experiment = ?", experiment)
    return int(last)


def rule_of(session: Session, experiment: int, number: int) -> Policy:
    """Return a policy as it is stored, without a function."""
    rows = session.run("select policy from rule where experiment = ? and number = ?", experiment, number)
    if not rows:
        raise DamagedError("The store is damaged: a policy is missing; restore a backup with `belated live restore`.")
    return policy_of(rows[0][0])


def _follow(session: Session, name: str, find_policy: FindPolicy, cause: str) -> str | None:
    """Make the version that follows a change of arms or segments."""
    about = snapshot(session, name)
    if about.version is None:
        return None
    policy = find_policy(session, about.id, about.version.rule)
    problem = changed_version(session, about, about.version.rule, policy, cause)
    session.run("update experiment set problem = ? where id = ?", problem, about.id)
    return problem


def _held(session: Session, name: str, who: Author) -> Snapshot:
    """Return an experiment that no other transaction changes until this one ends; raise if it has changed before."""
    experiment = snapshot(session, name).id
    hold(session, experiment)
    if who.seen is not None:
        ((changes,),) = session.run("select count(*) from change where experiment = ?", experiment)
        if changes != who.seen:
            raise OutdatedError(f"{name!r} was changed meanwhile; look at it again before you change it.")
    return snapshot(session, name)


def _changeable(session: Session, name: str, who: Author) -> Snapshot:
    about = _held(session, name, who)
    if about.state in ("stopped", "closed"):
        raise LiveError(f"{name!r} is {about.state}; its arms and its policy stay as they are.")
    return about


def _set_state(session: Session, about: Snapshot, state: State) -> None:
    session.run("update experiment set state = ? where id = ?", state, about.id)
