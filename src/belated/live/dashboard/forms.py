"""Forms: what was typed, what of it can be read, and what is wrong with the rest, beside each field."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from belated.base.errors import BelatedError, OptionError

_Read = TypeVar("_Read")


FieldKind = Literal["text", "number", "lines", "choice", "tick"]


class FormField(NamedTuple):
    """A field of a form.

    Attributes
    ----------
    name, label, help : str
        `help` explains it in a sentence or two.
    value : str
        What it holds at first.
    kind : {"text", "number", "lines", "choice", "tick"}
    choices : sequence of (value, words)
    optional : bool
    only : str
        The choice of another field for which alone it matters, such as "events"; otherwise it is hidden.
    """

    name: str
    label: str
    help: str
    value: str = ""
    kind: FieldKind = "text"
    choices: Sequence[tuple[str, str]] = ()
    optional: bool = False
    only: str = ""


class FormValues:
    """What was typed into a form.

    Parameters
    ----------
    values : mapping
    fields : sequence of FormField
        Their labels stand in the sentences.
    """

    def __init__(self, values: Mapping[str, str], fields: Sequence[FormField]) -> None:
        self.values = dict(values)
        self.errors: dict[str, str] = {}
        self._labels = {field.name: field.label for field in fields}
        self._choices = {field.name for field in fields if field.kind == "choice"}

    def read(self, name: str, reader: Callable[[str], _Read], *, about: str | None = None) -> _Read | None:
        """Return a field's value as `reader` reads it; None if it is wrong, which is then said beside the field.

        Spaces around what was typed do not count; those of a choice are of a name that programs gave.
        """
        text = self.values.get(name, "")
        try:
            return reader(text if name in self._choices else text.strip())
        except BelatedError as error:
            self.refuse(about or name, error)
            return None

    def refuse(self, name: str, error: BelatedError) -> None:
        """Say what is wrong beside a field; the first thing counts."""
        sentence = error.worded(lambda name, value: self._labels.get(name, name) + (f" {value}" if value else ""))
        self.errors.setdefault(name, sentence[:1].upper() + sentence[1:])


def needed(text: str) -> str:
    """Return text that is there."""
    if not text:
        raise OptionError("Fill in this field.")
    return text


#: A number whose thousands are set apart. Any other comma, such as that of 0,5, is none of a number.
_THOUSANDS = re.compile(r"([+-]?[1-9][0-9]{0,2})((?:[, ][0-9]{3})+)(?=\.|$)")


def _together(text: str) -> str:
    """Return a number without what sets its thousands apart."""
    match = _THOUSANDS.match(text)
    return text if match is None else match[1] + re.sub("[, ]", "", match[2]) + text[match.end() :]


def real(text: str) -> float:
    """Return a number; thousands may be set apart."""
    plain = _together(needed(text))
    try:
        value = float(plain)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise OptionError("Write a number, such as 0.5.") from None
    return value


def whole(text: str) -> int:
    """Return a whole number; thousands may be set apart."""
    plain = _together(needed(text))
    if not plain.isascii() or not plain.isdigit() or len(plain) > 15:
        raise OptionError("Write a whole number, such as 10000.")
    return int(plain)


def duration(reader: Callable[[str], _Read]) -> Callable[[str], _Read]:
    """Return a reader of a field that holds how long something lasts."""

    def read(text: str) -> _Read:
        needed(text)
        try:
            return reader(text)
        except BelatedError:
            raise OptionError("Write a duration, such as 7d, 12h or 30min.") from None

    return read


def perhaps(reader: Callable[[str], _Read]) -> Callable[[str], _Read | None]:
    """Return a reader of a field that may be empty."""
    return lambda text: reader(text) if text else None
