"""Pages: HTML from templates, every value escaped, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def page(template: str, **values: Any) -> str:
    """Return a template of this folder filled with values, which are escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("belated.display"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template).render(**values)


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file beside its place, then put it there, so that nobody ever sees half of it."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content if isinstance(content, bytes) else content.encode())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
