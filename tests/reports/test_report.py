"""Report: what a page is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reports.samples import sample_report

from belated.base.errors import OptionError


def test_a_contrast_too_many_is_refused():
    report = sample_report(tuple("ABC"), (1, 2, 3))
    with pytest.raises(OptionError, match="`contrasts` holds 2 answers; these arms make 3"):
        replace(report, baseline=None)
