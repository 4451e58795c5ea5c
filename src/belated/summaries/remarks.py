"""Remarks: what a log shows, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple


class Remark(NamedTuple):
    """A sign against an assumption in words: the finding, in a sentence, and the advice."""

    finding: str
    advice: str

    @property
    def text(self) -> str:
        """Both as one text."""
        return f"{self.finding} {self.advice}"
