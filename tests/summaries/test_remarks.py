"""Remarks: a finding and advice."""

from __future__ import annotations

from belated.summaries.remarks import Remark


def test_a_remark_is_two_sentences_and_one_text():
    remark = Remark("It rains.", "Stay in.")
    assert tuple(remark) == ("It rains.", "Stay in.")
    assert remark.text == "It rains. Stay in."
