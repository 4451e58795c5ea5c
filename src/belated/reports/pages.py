"""Pages: HTML from templates, every value escaped."""

from __future__ import annotations

from typing import Any


def page(template: str, **values: Any) -> str:
    """Return a template of this folder filled with values, which are escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("belated.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template).render(**values)
