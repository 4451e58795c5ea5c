from __future__ import annotations

import pytest

from belated.live.service import warming


def test_a_process_is_warmed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    warming.warm()
    monkeypatch.setattr(warming, "_opened", lambda _: pytest.fail("warmed again"))
    warming.warm()
