"""The service: live experiments over HTTP, for programs in any language."""

from __future__ import annotations

from importlib.util import find_spec

from belated.base.errors import MissingLibraryError

if any(find_spec(name) is None for name in ("starlette", "uvicorn", "msgspec")):
    raise MissingLibraryError("Serving live experiments needs more packages; run `pip install 'belated[live]'`.")

from belated.live.service.app import App, make_app
from belated.live.service.settings import Settings

__all__ = ["App", "Settings", "make_app"]
