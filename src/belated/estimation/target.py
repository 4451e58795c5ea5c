"""`Target`: what is estimated: an arm's mean, a contrast, a policy's value or any linear combination.

Targets are made from labels, or from the text of a command line. `default_pairs` gives the contrasts that are shown by
default. All other modules read targets here, so that the same input has the same meaning and errors everywhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias, TypeVar

import numpy as np

from belated.base.checks import are_shares, check_shares, nearest, real
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import OptionError, UnknownArmError, argument
from belated.base.text import Unit, count, one_line, shorten_all, shown, visible
from belated.log.labels import arm_index

#: The valid forms of a target, for error messages.
_TARGET_FORMS = "it must be an arm, a pair of arms such as ('B', 'A'), or a mapping from arms to numbers"

#: The positions of two arms; a contrast is the first minus the second.
Pair = tuple[Label, Label]

#: What a policy does in a segment: it chooses an arm, or has a probability for each arm. Type checkers take any Mapping
#: for hashable, and so for a label; dict, which is not, has to be named.
PolicyChoice: TypeAlias = Label | dict[Any, float]

#: A policy: a probability for each arm, or by segment an arm or such probabilities.
PolicyLike: TypeAlias = ByArm[PolicyChoice]

_Arm = TypeVar("_Arm")

#: Terms beyond which the name of a combination has only the largest.
_MOST_TERMS = 4

#: Columns of a screen that an arm takes in a name, and in a sum of several.
_ROOM, _SHORT_ROOM = 60, 24


# ---------------------------------------------------------------- targets from labels


@dataclass(frozen=True, eq=False)
class Target:
    """A linear combination of the arms' means.

    Attributes
    ----------
    name : str
        A name such as "B - A".
    coefficients : array
        One number per arm, in the order of the arms; by segment, of shape (segments, arms).
    parts : tuple
        The parts of the name that can be shortened one by one: the arms of a contrast.
    segment : optional
        The segment that it is about; None: the whole population.
    """

    name: str
    coefficients: Array
    parts: tuple[Label, ...] = ()
    segment: Label = None

    def unit(self, of_mean: Unit) -> Unit:
        """Return the unit for display: an average of shares is in percent, other combinations are in points."""
        if of_mean == "number":
            return "number"
        return "percent" if are_shares(self.coefficients).all() else "points"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Target):
            return NotImplemented
        same = (self.name, self.segment) == (other.name, other.segment)
        return same and np.array_equal(self.coefficients, other.coefficients)

    def __hash__(self) -> int:
        return hash((self.name, self.segment, tuple(self.coefficients.ravel().tolist())))

    @classmethod
    def arm(cls, arms: tuple[Label, ...], arm: Label) -> Target:
        """Return one arm's mean."""
        index = arm_index(arms, arm)
        return cls(name=one_line(visible(arm)), coefficients=_by_arm(arms, {arms[index]: 1.0}), parts=(arms[index],))

    @classmethod
    def contrast(cls, arms: tuple[Label, ...], arm: Label, baseline: Label) -> Target:
        """Return one arm's mean minus another's."""
        first, second = pair_index(arms, arm, baseline)
        pair = (arms[first], arms[second])
        return cls(name=contrast_name(*pair), coefficients=_by_arm(arms, {arm: 1.0, baseline: -1.0}), parts=pair)

    @classmethod
    def policy(cls, arms: tuple[Label, ...], shares: PolicyLike | str, *, option: str = "policy") -> Target:
        """Return the mean outcome under a policy, given as a probability per arm."""
        weights = _numbers(option, shares)
        check_shares(argument(option), shares, list(weights.values()))
        return cls(name=_sum_name(weights, "{:.4g}", " + "), coefficients=_by_arm(arms, weights))

    @classmethod
    def linear(cls, arms: tuple[Label, ...], coefficients: ByArm[float], *, option: str = "coefficients") -> Target:
        """Return any linear combination of the arms' means."""
        weights = _numbers(option, coefficients)
        vector = _by_arm(arms, weights)
        if not vector.any():
            raise OptionError(f"`{option}` is {shown(coefficients)}; at least one coefficient must differ from 0.")
        return cls(name=_sum_name(weights, "{:+.4g}", " "), coefficients=vector)


def read_target(arms: tuple[Label, ...], given: object, *, option: str = "target") -> Target:
    """Return the target for an arm, a pair (arm, baseline), or a mapping from arms to coefficients.

    Parameters
    ----------
    arms : tuple
        The labels of all arms.
    given
        The user's input, or a `Target`. A tuple that is itself the label of an arm means that arm.
    option : str
        The name of the option, for error messages.
    """
    if isinstance(given, Target):
        return given
    if isinstance(given, Mapping):
        return Target.linear(arms, given, option=option)
    if isinstance(given, (tuple, list)) and not _is_label(arms, given):
        if len(given) != 2:
            raise OptionError(f"`{option}` is {shown(given)}, which is not a pair of arms; {_TARGET_FORMS}.")
        return Target.contrast(arms, *given)
    if not isinstance(given, Hashable):
        raise OptionError(f"`{option}` is {shown(given)}; {_TARGET_FORMS}.")
    return Target.arm(arms, given)


def contrast_name(arm: Label, baseline: Label) -> str:
    """Return the name of a contrast; it shows both arms even if their names are long."""
    return " - ".join(shorten_all((arm, baseline), _ROOM))


def _sum_name(weights: Mapping[Label, float], form: str, plus: str) -> str:
    """Return the name of a combination: its terms or, if there are many, the three largest and the number of others."""
    terms = {arm: weight for arm, weight in weights.items() if weight}
    shown = terms
    if len(terms) > _MOST_TERMS:
        largest = sorted(terms, key=lambda arm: -abs(terms[arm]))[: _MOST_TERMS - 1]
        shown = {arm: weight for arm, weight in terms.items() if arm in set(largest)}
    names = shorten_all(shown, _ROOM if len(shown) == 1 else _SHORT_ROOM)
    words = [f"{form.format(weight)} {name}" for weight, name in zip(shown.values(), names, strict=True)]
    more = len(terms) - len(shown)
    return plus.join([*words, f"{'+ ' if plus == ' ' else ''}{count(more, 'other')}"] if more else words)


def _is_label(arms: tuple[Label, ...], given: object) -> bool:
    """Whether a tuple is itself the label of an arm; compared by hash, as NumPy arrays compare by elements."""
    try:
        return given in set(arms)
    except TypeError:
        return False


def _numbers(option: str, given: object) -> dict[Label, float]:
    if not isinstance(given, Mapping):
        raise OptionError(f"`{option}` is {shown(given)}; it must map arms to numbers, such as {{'A': 0.2, 'B': 0.8}}.")
    return {arm: real(f"{option}[{arm!r}]", number) for arm, number in given.items()}


def _by_arm(arms: tuple[Label, ...], weights: ByArm[float]) -> Array:
    vector = np.zeros(len(arms))
    for arm, weight in weights.items():
        vector[arm_index(arms, arm)] = weight
    vector.flags.writeable = False
    return vector


# ---------------------------------------------------------------- the contrasts shown by default


def pair_index(arms: tuple[Label, ...], arm: Label, baseline: Label) -> tuple[int, int]:
    """Return the places of the two arms of a contrast, or raise if they are the same arm."""
    first, second = arm_index(arms, arm), arm_index(arms, baseline)
    if first == second:
        raise OptionError(f"A contrast needs two different arms; both are {arm!r}.")
    return first, second


def default_pairs(arms: Sequence[_Arm], baseline: _Arm | None = None) -> list[tuple[_Arm, _Arm]]:
    """Return the contrasts (arm, baseline) of every other arm with the baseline, or all pairs if there is none.

    In a pair, the later arm comes first, because the first arm of an experiment is usually the baseline.

    Examples
    --------
    >>> default_pairs(["A", "B", "C"])
    [('B', 'A'), ('C', 'A'), ('C', 'B')]
    >>> default_pairs(["A", "B", "C"], "B")
    [('A', 'B'), ('C', 'B')]
    """
    if baseline is None:
        return [(later, earlier) for earlier, later in combinations(arms, 2)]
    return [(arm, baseline) for arm in arms if arm != baseline]


#: Arms beyond which all pairs of them are too many to show.
MANY_ARMS = 8


def shown_baseline(arms: Sequence[_Arm], baseline: _Arm | None = None) -> _Arm | None:
    """Return the arm that a report compares the others with: the baseline, or the first of many arms; None: all pairs.

    Examples
    --------
    >>> shown_baseline("ABC"), shown_baseline("ABC", "B"), shown_baseline("ABCDEFGHI")
    (None, 'B', 'A')
    """
    return arms[0] if baseline is None and len(arms) > MANY_ARMS else baseline


# ---------------------------------------------------------------- arms as text of a command line


def find_arm(arms: Sequence[Label], text: str) -> Label:
    """Return the arm with the given name."""
    matches = [arm for arm in arms if str(arm) == text]
    if not matches:
        known = _first_arms(arms) + (", ..." if len(arms) > 10 else "")
        near = nearest(text, arms)
        hint = f" Did you mean {one_line(repr(near))}?" if near else ""
        raise UnknownArmError(f"There is no arm {one_line(repr(text))}; the arms are {known}.{hint}")
    return matches[0]


def _first_arms(arms: Sequence[Label]) -> str:
    return ", ".join(one_line(repr(str(arm))) for arm in arms[:10])


def read_arm_or_contrast(arms: Sequence[Label], text: str) -> Label | Pair:
    """Return the arm with the given name or, if there is none, the two arms of a contrast such as B-A."""
    if text in map(str, arms):
        return find_arm(arms, text)
    if "-" not in text:
        known = _first_arms(arms)
        raise OptionError(
            f"{argument('target')} is {one_line(repr(text))}; it must be two arms, such as B-A, or one of {known}."
        )
    return read_contrast(arms, text, option="target")


def read_contrast(arms: Sequence[Label], text: str, *, option: str = "contrast") -> tuple[Label, Label]:
    """Return the two arms of a contrast such as B-A; names may contain dashes and spaces."""
    by_text = {str(arm): arm for arm in arms}
    whole = [(text[:i], text[i + 1 :]) for i, c in enumerate(text) if c == "-"]
    exact = [(a.removesuffix(" "), b.removeprefix(" ")) for a, b in whole]
    splits = [(a.strip(), b.strip()) for a, b in whole]
    read = ([(a, b) for a, b in ways if a in by_text and b in by_text and a != b] for ways in (splits, exact, whole))
    pairs = [(by_text[a], by_text[b]) for a, b in next(filter(None, read), [])]
    if len(pairs) == 1:
        return pairs[0]
    if pairs:
        raise OptionError(f"{argument(option)} is {one_line(repr(text))}, which can be read in {len(pairs)} ways.")
    if not splits:
        raise OptionError(f"{argument(option)} is {one_line(repr(text))}; it must be two arms, such as B-A.")
    a, b = splits[0]
    find_arm(arms, b if a in by_text else a)
    raise OptionError(f"{argument(option)} is {one_line(repr(text))}; a contrast needs two different arms.")


def read_policy(arms: Sequence[Label], text: str) -> dict[Label, float] | str:
    """Return a policy from text such as A=0.2,B=0.8, or "greedy"."""
    if text == "greedy":
        return text
    wanted = "it must give each arm a probability, such as A=0.2,B=0.8"
    if text and "=" not in text:
        by_segment = f"; a policy by segment needs the segments: name them with {argument('segment')}"
        hint = by_segment if ":" in text else ""
        raise OptionError(f"{argument('policy')} is {one_line(repr(text))}; {wanted}, or be 'greedy'{hint}.")
    by_text = {str(arm): arm for arm in arms}
    policy: dict[Label, float] = {}
    rest = text
    while rest:
        # names may contain commas and equals signs: take the longest name that fits
        name = max((t for t in by_text if rest.startswith(f"{t}=")), key=len, default=None)
        if name is None:
            find_arm(arms, rest.split("=")[0])
        share, _, rest = rest[len(name or "") + 1 :].partition(",")
        try:
            number = float(share)
        except ValueError:
            raise OptionError(f"{argument('policy')} is {one_line(repr(text))}; {wanted}.") from None
        if by_text[name or ""] in policy:
            raise OptionError(f"{argument('policy')} has arm {one_line(repr(name))} twice; give it once.")
        policy[by_text[name or ""]] = real(f"policy[{name!r}]", number)
        rest = rest.lstrip()
    if not policy:
        raise OptionError(f"{argument('policy')} is empty; {wanted}.")
    return policy
