from __future__ import annotations

import re

import belated as bl
from belated.base.version import __version__


def test_the_version_is_a_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert bl.__version__ == __version__
