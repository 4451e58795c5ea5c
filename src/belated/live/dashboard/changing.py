"""Changing an experiment by forms: what can be done now, what it would do, and doing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from belated.base.checks import one_of
from belated.base.errors import OptionError, PolicyError
from belated.base.tables import Column
from belated.base.text import count, one_line
from belated.live.dashboard.creating import POLICY_FIELDS, read_policy
from belated.live.dashboard.forms import FormField, FormValues, needed
from belated.live.dashboard.history import policy_words
from belated.live.deciding import decide
from belated.live.design import Snapshot, read_text, snapshot
from belated.live.experiment import Experiment
from belated.live.learning import known_at
from belated.live.ticking import remaining
from belated.reports.layout import Sheet
from belated.simulation.description import policy_to
from belated.simulation.policies import Policy

REASON = FormField("reason", "Reason", "Why you do it. It stays in the audit, with your name and the time.")


class Action(NamedTuple):
    """A change that can be made: its word, its button, and its fields beside the reason."""

    what: str
    words: str
    explained: str
    fields: tuple[FormField, ...] = ()

    @property
    def all_fields(self) -> tuple[FormField, ...]:
        """The fields, with the reason."""
        return (*self.fields, REASON)


def _choice(name: str, label: str, words: str, labels: Sequence[str], none: str | None = None) -> FormField:
    first = [] if none is None else [("", none)]
    choices = [*first, *((each, one_line(each, 80)) for each in labels)]
    return FormField(name, label, words, value=choices[0][0], kind="choice", choices=choices, optional=none is not None)


def _final_arms(about: Snapshot) -> list[str]:
    """Return the arms that units may get after the end: all but those that were dropped."""
    return [arm.label for arm in about.arms if arm.state != "dropped"]


def actions(about: Snapshot) -> list[Action]:
    """Return the changes that an experiment can have in its state."""
    by_state = {
        state: [arm.label for arm in about.arms if arm.state == state] for state in ("offered", "paused", "dropped")
    }
    possible = []
    if about.state == "draft":
        possible.append(Action("start", "Start", "It takes units from then on."))
    if about.state in ("draft", "running"):
        several = by_state["offered"] if len(by_state["offered"]) > 1 else []
        droppable = [*several, *by_state["paused"]]
        if several:
            arm = _choice("arm", "Arm", "The arm that new units no longer get, until it is resumed.", several)
            possible.append(
                Action("pause_arm", "Pause an arm", "New units no longer get it; it can be resumed.", (arm,))
            )
        if by_state["paused"]:
            arm = _choice("arm", "Arm", "The arm that new units can get again.", by_state["paused"])
            possible.append(Action("resume_arm", "Resume an arm", "New units can get it again.", (arm,)))
        if droppable:
            arm = _choice("arm", "Arm", "The arm that no new unit ever gets again.", droppable)
            possible.append(Action("drop_arm", "Drop an arm", "New units never get it again.", (arm,)))
        new = FormField("arm", "New arm", "Its name; it cannot be one that the experiment has or had.")
        possible.append(Action("add_arm", "Add an arm", "New units can get it from then on.", (new,)))
        if about.setup.segmented:
            segment = FormField("segment", "New segment", "Its name; units name it when they are asked.")
            possible.append(Action("add_segment", "Add a segment", "Units can have it from then on.", (segment,)))
        possible.append(Action("set_policy", "Change the policy", "Arms are chosen by another rule.", POLICY_FIELDS))
    if about.state == "running":
        final = _choice(
            "final",
            "Final arm",
            "The arm that later units get; they are not part of the experiment.",
            _final_arms(about),
            "no arm: asking is refused",
        )
        possible.append(
            Action("stop", "Stop", "Takes no new units, but still takes outcomes. It cannot start again.", (final,))
        )
    if about.state != "closed":
        possible.append(Action("close", "Close", "Takes no units and no outcomes. This cannot be undone."))
    return possible


@dataclass(frozen=True)
class RequestedChange:
    """A change that was asked for, and what it would do.

    Attributes
    ----------
    question : str
    effects : list of str
        What it would do, in sentences.
    sheet : Sheet or None
        The probabilities before and after it.
    act : callable
        Makes it, given `author` and `reason`.
    reason : str
    """

    question: str
    effects: list[str]
    sheet: Sheet | None
    act: Callable[..., object]
    reason: str

    def make(self, author: str) -> None:
        """Make the change."""
        self.act(author=author, reason=self.reason)


def read_change(exp: Experiment, form: Mapping[str, str]) -> tuple[RequestedChange | None, Action, FormValues]:
    """Return the change that a form asks for; None if something is wrong with it."""
    with exp._store.storage.reading() as session:
        about = snapshot(session, exp.name)
    possible = {action.what: action for action in actions(about)}
    what = form.get("what", "")
    if what not in possible:
        state = "a draft" if about.state == "draft" else about.state
        raise OptionError(f"This cannot be done while the experiment is {state}; load its page again.")
    action = possible[what]
    given = FormValues(form, action.all_fields)
    reason = given.read("reason", lambda text: read_text("reason", needed(text), 2000))
    change = _CHANGES[what](exp, about, given)
    if given.errors or change is None or reason is None:
        return None, action, given
    return RequestedChange(*change, reason), action, given


_Proposal = tuple[str, list[str], Sheet | None, Callable[..., object]]


def _start(exp: Experiment, about: Snapshot, given: FormValues) -> _Proposal:
    shares = count(len(about.offered), "arm")
    effects = [
        f"It takes units from now on, and decides among {shares}.",
        "The settings that were fixed at its creation stay fixed.",
    ]
    return f"Start {_name(about)}?", effects, None, exp.start


def _stop(exp: Experiment, about: Snapshot, given: FormValues) -> _Proposal | None:
    label = given.read("final", lambda text: one_of("final", text, ("", *_final_arms(about))))
    if label is None:
        return None
    final = label or None
    later = (
        "Later units are refused."
        if final is None
        else (f"Later units get {_quoted(final)}, and are not part of the experiment.")
    )
    effects = [
        "No new unit enters the experiment, and it cannot start again.",
        later,
        "Units that were decided keep their arms, and their outcomes are still taken and counted.",
    ]
    return f"Stop {_name(about)}?", effects, None, lambda **who: exp.stop(final, **who)


def _close(exp: Experiment, about: Snapshot, given: FormValues) -> _Proposal:
    status = exp.status()
    lost = (
        " A unit whose window is open counts for the age that it has reached."
        if exp.setup.outcome.is_events
        else f" {count(max(status.asked - status.told, 0), 'outcome')} still out will never be known."
    )
    effects = [
        f"No units and no outcomes are taken from then on.{lost}",
        "It cannot be undone.",
        "Answers and the log stay.",
    ]
    return f"Close {_name(about)}?", effects, None, exp.close


def _set_arm(words: str, state: str, method: str, effects: list[str]) -> Callable[..., _Proposal | None]:
    def propose(exp: Experiment, about: Snapshot, given: FormValues) -> _Proposal | None:
        label = given.read("arm", lambda text: one_of("arm", text, about.labels))
        if label is None:
            return None
        number = about.arm(label).number
        rest = {arm.number for arm in about.arms if arm.state == "offered"} - {number}
        offered = sorted(rest | {number} if state == "offered" else rest)
        sheet, problem = _preview(exp, about, about.labels, offered, None)
        said = [each.format(arm=_quoted(label)) for each in effects]
        act = getattr(exp, method)
        return f"{words} {_quoted(label)}?", [*said, *problem], sheet, lambda **who: act(label, **who)

    return propose


def _add_arm(exp: Experiment, about: Snapshot, given: FormValues) -> _Proposal | None:
    def new(text: str) -> str:
        if read_text("arm", needed(text)) in about.labels:
            raise OptionError("The experiment has or had an arm of this name; choose another one.")
        return text

    label = given.read("arm", new)
    if label is None:
        return None
    sheet, problem = _preview(exp, about, (*about.labels, label), [*about.offered, len(about.arms)], None)
    effects = [
        f"New units can get {_quoted(label)} from now on; its probability was 0 until then.",
        "Arms cannot be renamed or removed from the log.",
    ]
    return f"Add {_quoted(label)}?", [*effects, *problem], sheet, lambda **who: exp.add_arm(label, **who)


def _add_segment(exp: Experiment, about: Snapshot, given: FormValues) -> _Proposal | None:
    def new(text: str) -> str:
        if read_text("segment", needed(text)) in about.segments:
            raise OptionError("The experiment has a segment of this name; choose another one.")
        return text

    label = given.read("segment", new)
    if label is None:
        return None
    effects = [f"Units can be of {_quoted(label)} from now on; the policy begins to learn there with the first."]
    return f"Add the segment {_quoted(label)}?", effects, None, lambda **who: exp.add_segment(label, **who)


def _set_policy(exp: Experiment, about: Snapshot, given: FormValues) -> _Proposal | None:
    policy = read_policy(given, about.labels, exp.setup.outcome)
    if policy is None:
        return None
    sheet, problem = _preview(exp, about, about.labels, about.offered, policy)
    effects = [
        f"Arms are chosen by {policy_words(policy_to(policy))} from now on.",
        "Units that were decided keep their arms. Answers stay valid: the probabilities that were used are in the log.",
    ]
    return "Change the policy?", [*effects, *problem], sheet, lambda **who: exp.set_policy(policy, **who)


_CHANGES: dict[str, Callable[[Experiment, Snapshot, FormValues], _Proposal | None]] = {
    "start": _start,
    "stop": _stop,
    "close": _close,
    "add_arm": _add_arm,
    "add_segment": _add_segment,
    "set_policy": _set_policy,
    "pause_arm": _set_arm(
        "Pause",
        "paused",
        "pause_arm",
        [
            "New units no longer get {arm}, until it is resumed.",
            "Units that have it keep it, and their outcomes still count.",
        ],
    ),
    "resume_arm": _set_arm("Resume", "offered", "resume_arm", ["New units can get {arm} again."]),
    "drop_arm": _set_arm(
        "Drop",
        "dropped",
        "drop_arm",
        [
            "New units never get {arm} again; this cannot be undone.",
            "Units that have it keep it, and their outcomes still count.",
        ],
    ),
}


def _preview(
    exp: Experiment, about: Snapshot, labels: Sequence[str], offered: Sequence[int], policy: Policy | None
) -> tuple[Sheet | None, list[str]]:
    """Return the probabilities now and after a change, and what would be wrong with the policy."""
    current, segments = about.version, about.segments
    if current is None:
        return None, ["The experiment has not started: nothing is decided yet."]
    with exp._store.storage.reading() as session:
        rule = exp._store.find_policy(session, about.id, current.rule) if policy is None else policy
    known, said = known_at(current, len(labels), len(segments)), []
    try:
        then = decide(rule, labels, offered, known, about.setup.planned, segments)
    except PolicyError as error:
        said.append(f"The policy fails then: {error} The remaining arms keep their last probabilities.")
        then = remaining(current, offered, len(labels), len(segments))
    now = [p for k in range(max(len(segments), 1)) for p in _padded(current.chances(k), len(labels))]
    columns = [Column("arm", list(labels) * max(len(segments), 1), "label")]
    columns += [Column("segment", [each for each in segments for _ in labels], "label")] if segments else []
    columns += [Column("now", now, "share"), Column("then", then, "share")]
    return Sheet("Probabilities of new units, before and after the change", columns), said


def _padded(values: Sequence[float], length: int) -> list[float]:
    return [*values, *[0.0] * (length - len(values))]


def _quoted(label: str) -> str:
    return f"“\u2068{one_line(label, 200)}\u2069”"


def _name(about: Snapshot) -> str:
    return _quoted(about.name)


def change_done(what: str) -> str:
    """Say that a change was made."""
    done = {
        "start": "The experiment was started.",
        "stop": "The experiment was stopped.",
        "close": "The experiment was closed.",
        "add_arm": "The arm was added.",
        "add_segment": "The segment was added.",
        "pause_arm": "The arm was paused.",
        "resume_arm": "The arm was resumed.",
        "drop_arm": "The arm was dropped.",
        "set_policy": "The policy was changed.",
        "create": "The experiment was created.",
        "revoke": "The token was revoked.",
    }
    return done.get(what, "")
