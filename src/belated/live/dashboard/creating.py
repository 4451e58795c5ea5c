"""Creating an experiment by a form: its fields, and what is read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from belated.base.checks import Options, fraction, one_of, positive
from belated.base.checks import whole as least_whole
from belated.base.errors import BelatedError, OptionError
from belated.live import outcomes
from belated.live.dashboard.forms import FormField, FormValues, duration, needed, perhaps, real, whole
from belated.live.deciding import check_policy, thompson_for
from belated.live.design import LONGEST, MOST_ARMS, read_segments, read_text
from belated.live.experiment import Experiment
from belated.live.store import Store
from belated.simulation.description import policy_from
from belated.simulation.policies import Policy
from belated.summaries import maturing

OUTCOMES = (
    ("binary", "yes or no, told as 1 or 0"),
    ("events", "events in a window, such as sales"),
    ("bounded", "a number between two limits"),
    ("real", "any number"),
)
MEASURES = (
    ("indicator", "whether there was any"),
    ("count", "how many there were"),
    ("sum", "the sum of their values"),
)
POLICIES = (
    ("thompson", "Thompson sampling"),
    ("epsilon_greedy", "epsilon-greedy"),
    ("ucb", "upper confidence bound"),
    ("uniform", "equal shares for all arms"),
    ("fixed", "fixed shares, given below"),
)

POLICY_FIELDS = (
    FormField(
        "policy",
        "Policy",
        "How arms are chosen. Thompson sampling: the better an arm seems, the more units it gets. Epsilon-greedy: the "
        "best arm so far, and sometimes another. Upper confidence bound: the arm that could be best. It can be "
        "changed later; answers stay valid.",
        value="thompson",
        kind="choice",
        choices=POLICIES,
    ),
    FormField(
        "burn_in",
        "Burn-in",
        "Units at the beginning for which all arms are equally likely; below 1, a share of the "
        "planned units. Some are needed before anything can be learned.",
        value="0.05",
        kind="number",
        only="learning",
    ),
    FormField(
        "decay",
        "Decay of the minimum probability",
        "Every arm keeps at least the probability t^-decay at unit t, so that "
        "all arms can be compared. From 0 to below 1; smaller explores more.",
        value="0.5",
        kind="number",
        only="learning",
    ),
    FormField(
        "shares",
        "Fixed shares",
        "Only for fixed shares: one line for each arm, such as Plain=0.3. They must sum to 1.",
        kind="lines",
        only="fixed",
    ),
)

CREATE_FIELDS = (
    FormField("name", "Name", "What programs and people call the experiment. It cannot be changed."),
    FormField(
        "arms", "Arms", "What is compared, one in each line. Arms can be added, paused and dropped later.", kind="lines"
    ),
    FormField(
        "baseline",
        "Baseline",
        "The arm with which others are compared. It cannot be changed later. Empty: all are compared with each other.",
        optional=True,
    ),
    FormField(
        "segments",
        "Segments",
        "If units differ, such as by country: one in each line. Each unit then names its own when it is asked, the "
        "policy learns in each, and answers are over all and in each. More can be added later.",
        kind="lines",
        optional=True,
    ),
    FormField(
        "outcome",
        "Outcome",
        "What is told about a unit, now or later. An outcome that was not told is unknown, except for events: a unit "
        "without events has the outcome 0 when its window closes. It cannot be changed later.",
        value="binary",
        kind="choice",
        choices=OUTCOMES,
    ),
    FormField(
        "window",
        "Window",
        "For events: how long after the assignment they count, such as 7d, 12h or 30min.",
        value="7d",
        only="events",
    ),
    FormField(
        "measure",
        "Measure",
        "For events: how the events of a unit become its outcome.",
        value="indicator",
        kind="choice",
        choices=MEASURES,
        only="events",
    ),
    FormField("low", "Lowest value", "For a number between two limits.", value="0", kind="number", only="bounded"),
    FormField("high", "Highest value", "For a number between two limits.", value="1", kind="number", only="bounded"),
    FormField(
        "planned",
        "Planned units",
        "About how many units will come. Intervals at every look are narrowest there, and "
        "policy versions are made every 0.2% of them.",
        value="10000",
        kind="number",
    ),
    FormField(
        "level", "Level", "How often intervals hold the truth. It cannot be changed later.", value="0.95", kind="number"
    ),
    *POLICY_FIELDS,
    FormField(
        "seconds",
        "Seconds between versions",
        "The number of seconds after which a new policy version is made, if there is anything new.",
        value="2",
        kind="number",
    ),
    FormField(
        "start",
        "Start at once",
        "Otherwise it is a draft, and takes units once it is started.",
        value="yes",
        kind="tick",
    ),
    FormField("reason", "Reason", "Why you create it, for the audit.", optional=True),
)


def read_policy(given: FormValues, labels: Sequence[str], outcome: outcomes.Outcome | None) -> Policy | None:
    """Return the policy of a form; what is wrong is said beside its fields."""
    choices = {value for value, _ in POLICIES}
    name = given.read("policy", lambda text: one_of("policy", text, tuple(choices)))
    table: dict[str, object] = {"name": name}
    if name == "thompson" and outcome is not None:
        table["name"] = thompson_for(outcome)
    if name == "fixed":
        table["shares"] = given.read("shares", _shares)
    elif name != "uniform":
        table |= {"burn_in": given.read("burn_in", real), "decay": given.read("decay", real)}
    if None in table.values() or outcome is None:
        return None
    for place in ("decay", "burn_in", "policy"):
        try:
            wanted = {key: value for key, value in table.items() if place == "policy" or key in ("name", place)}
            policy = policy_from(wanted if name not in ("fixed", "uniform") else table)
            check_policy(policy, labels, outcome)
        except BelatedError as error:
            given.refuse("shares" if name == "fixed" else place, error)
            return None
    return policy


def _shares(text: str) -> dict[str, float]:
    lines = [line.rpartition("=") for line in needed(text).splitlines() if line.strip()]
    if any(not equals or not label.strip() for label, equals, _ in lines):
        raise OptionError("Write one line for each arm, such as Plain=0.3.")
    return {label.strip(): real(share.strip()) for label, _, share in lines}


def read_outcome(given: FormValues) -> outcomes.Outcome | None:
    """Return the outcome of a form."""
    kind = given.read("outcome", lambda text: one_of("outcome", text, outcomes.KINDS))
    if kind == "events":
        measure = given.read("measure", lambda text: one_of("measure", text, maturing.MEASURES))
        if measure is None:
            return None
        return given.read("window", duration(lambda text: outcomes.events(text, measure)))
    if kind == "bounded":
        low, high = given.read("low", real), given.read("high", real)
        return None if low is None or high is None else given.read("high", lambda _: outcomes.bounded(low, high))
    return None if kind is None else outcomes.outcome_of(kind)


def _arms(text: str) -> list[str]:
    labels = [line.strip() for line in needed(text).splitlines() if line.strip()]
    labels = [read_text("arms", label) for label in labels]
    if len(set(labels)) != len(labels) or not 1 <= len(labels) <= MOST_ARMS:
        raise OptionError(f"Write 1 to {MOST_ARMS} different arms, one in each line.")
    return labels


def _segments(text: str) -> list[str]:
    return read_segments([line.strip() for line in text.splitlines() if line.strip()])


def read_creation(given: FormValues) -> Options | None:
    """Return the options of `Store.create` that a form holds; None if something is wrong."""
    name = given.read("name", lambda text: read_text("name", needed(text)))
    labels = given.read("arms", _arms)
    segments = given.read("segments", perhaps(_segments))
    outcome = read_outcome(given)
    policy = read_policy(given, labels or [], outcome) if labels else None
    baseline = given.read("baseline", perhaps(lambda text: _one_arm(text, labels)))
    planned = given.read("planned", lambda text: least_whole("planned", whole(text), least=1))
    level = given.read("level", lambda text: fraction("level", real(text)))
    seconds = given.read("seconds", lambda text: positive("seconds", real(text)))
    reason = given.read("reason", perhaps(lambda text: read_text("reason", text, 2000)))
    if given.errors or labels is None or outcome is None or planned is None or level is None or seconds is None:
        return None
    return {
        "name": name,
        "arms": labels,
        "policy": policy,
        "outcome": outcome,
        "segments": segments,
        "baseline": baseline,
        "planned_rows": planned,
        "level": level,
        "seconds": seconds,
        "reason": reason or "",
    }


def _one_arm(text: str, labels: Sequence[str] | None) -> str:
    if labels is not None and text not in labels:
        raise OptionError("Write one of the arms above, or nothing.")
    return read_text("baseline", text, LONGEST)


def create(store: Store, form: Mapping[str, str], author: str) -> tuple[Experiment | None, FormValues]:
    """Create an experiment; without one, the form says why not."""
    given = FormValues(form, CREATE_FIELDS)
    options = read_creation(given)
    if options is None:
        return None, given
    try:
        exp = store.create(**options, author=author)
    except BelatedError as error:
        given.refuse("name", error)
        return None, given
    if form.get("start"):
        exp.start(author=author, reason=options["reason"])
    return exp, given
