"""Roles: the column that plays each, and where the propensities are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from belated.base.columns import Label
from belated.base.text import one_line
from belated.reading.names import Role, some, text_of, wrong
from belated.reading.wide import by_label, wide

#: What p_value and its like speak of, which is no arm unless the data have it.
_NO_ARM = "value|val|hat|chosen|action|selected|total|sum|max|min"


#: How propensities are held.
PropensityKind = Literal["wide", "column", "chosen", "guess"]


@dataclass(frozen=True)
class Propensity:
    """Where the propensities are.

    Attributes
    ----------
    kind : {"wide", "column", "chosen", "guess"}
        "wide": a column for each arm; "column": every arm's in one column, a list, struct, map or JSON; "chosen": the
        chosen arm's, a number; "guess": only the arms can tell, see `Roles.settled`.
    columns : tuple of str
        The columns; of a guess, those that might be.
    labels : tuple or None
        If wide, whose each column is.
    extra : mapping
        Label to column: further columns named alike, of arms never chosen or of something else.
    pattern : str or None
        The pattern that named the columns, if one did.
    instead : Propensity or None
        Of a guess, what it is if the arms have no columns of their own.
    """

    kind: PropensityKind
    columns: tuple[str, ...] = ()
    labels: tuple[Label, ...] | None = None
    extra: Mapping[Label, str] = field(default_factory=dict)
    pattern: str | None = None
    instead: Propensity | None = None


@dataclass(frozen=True)
class Roles:
    """The column of each role, the roles that were `guessed`, and what the `second` table is called, if any."""

    arm: str
    outcome: str | None = None
    assigned_at: str | None = None
    arrived_at: str | None = None
    delay: str | None = None
    key: str | None = None
    outcome_key: str | None = None
    propensity: Propensity | None = None
    guessed: tuple[Role, ...] = ()
    second: str | None = None

    def settled(self, arms: Iterable[Label]) -> Roles:
        """Return the roles with each propensity column matched to its arm, now that the `arms` in the data are known.

        A column for each arm is worth more than the chosen arm's probability, and is preferred to it if the columns
        are named as probabilities (`p_A`, `A_prob`). Any other shared name counts only if nothing else could be meant.
        """
        propensity, known = self.propensity, list(arms)
        if propensity is None or propensity.kind not in ("guess", "wide"):
            return self
        columns, guess = propensity.columns, propensity.kind == "guess"
        if propensity.labels is None:
            match = wide(columns, known, sure=propensity.instead is not None)
        else:
            match = by_label(zip(propensity.labels, columns, strict=True), known)
        if match is None and guess:
            if propensity.instead is not None:
                return replace(self, propensity=propensity.instead)
            raise wrong(
                "propensity",
                "No columns are named like the arms' propensities; name them with `propensity`, such as 'p_*' for p_A; "
                f"the columns of numbers are {some(columns)}.",
            )
        listed = not guess and propensity.pattern is None  # whoever lists the columns says that all of them are arms
        if match is None or (listed and len(match.columns) + len(match.extra) < len(columns)):
            raise wrong(
                "propensity",
                f"The columns {some(columns)} of `propensity` are not one for each of the arms "
                f"{some(map(text_of, known))}; say which is whose, such as 'A=p_A,B=p_B'.",
            )
        owners, extra = (match.columns | match.extra, {}) if listed else match
        if guess:
            extra = {label: column for label, column in extra.items() if not re.fullmatch(_NO_ARM, str(label).lower())}
        settled = Propensity(kind="wide", columns=tuple(owners.values()), labels=tuple(owners), extra=extra)
        return replace(self, propensity=settled)

    def to_dict(self) -> dict[str, str | list[str]]:
        """Return the column of each role that has one; of propensities, those of each arm or the one they are in."""
        names = ("arm", "outcome", "assigned_at", "arrived_at", "delay", "key", "outcome_key")
        columns: dict[str, str | list[str]] = {
            name: getattr(self, name) for name in names if getattr(self, name) is not None
        }
        if self.propensity is not None:
            several = self.propensity.columns
            columns["propensity"] = list(several) if self.propensity.kind == "wide" else several[0]
        return {**columns, "guessed": list(self.guessed)}

    def line(self, *, cli: bool = False, options: bool = True) -> str:
        """Return one line that says which column plays which role, and with which options to say otherwise."""
        shown = []
        for role in ("arm", "outcome", "assigned_at", "arrived_at", "delay", "key"):
            column = getattr(self, role) or ("each row" if role == "outcome" else None)
            if column is not None:
                also = f" (from {self.second})" if role == "outcome" and self.second else ""
                if role == "key" and self.outcome_key not in (None, column):
                    also = f" = {one_line(self.outcome_key)}"
                shown.append(f"{role.replace('_', ' ')} = {one_line(column)}{also}")
        if self.propensity is not None and self.propensity.kind != "guess":
            what = "propensity" if self.propensity.kind == "chosen" else "propensities"
            shown.append(f"{what} = {some(self.propensity.columns, quote='')}")
        named = [f"--{role.replace('_', '-')}" if cli else f"`{role}`" for role in self.guessed if options]
        guessed = f" (guessed; say otherwise with {', '.join(named)})" if named else ""
        return f"columns: {', '.join(shown)}{guessed}"
