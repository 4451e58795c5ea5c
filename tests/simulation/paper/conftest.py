from __future__ import annotations

import pytest

from belated.simulation.paper import reproduction as paper


@pytest.fixture(scope="session")
def ours() -> paper.Paper:
    """Two of the paper's scenarios, in our way."""
    return paper.reproduce(["no-delay", "zero-margin"], replications=400, seed=2, progress=False)
