from __future__ import annotations

import subprocess
import sys

import pytest
from scipy.special import ndtr

from belated.base import special


def test_functions_are_scipy_s():
    assert special.ndtr is ndtr
    assert "ndtr" in vars(special)
    with pytest.raises(AttributeError):
        special.nothing  # noqa: B018


@pytest.mark.parametrize("module", ["belated.live", "belated.simulation.description", "belated.estimation.estimate"])
def test_scipy_is_loaded_when_a_function_is_used(module):
    code = f"import sys, {module}; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
