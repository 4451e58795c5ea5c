from __future__ import annotations

import subprocess
import sys

import pytest
from jinja2 import TemplateNotFound, UndefinedError

from belated.base.pages import page


def test_a_package_has_its_own_templates():
    with pytest.raises(TemplateNotFound):
        page("belated.reports", "paper.html")
    with pytest.raises(UndefinedError):  # found, and nothing may be left out
        page("belated.simulation.paper", "paper.html")


def test_jinja_is_loaded_for_pages_alone():
    code = "import sys, belated.base.pages, belated; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
