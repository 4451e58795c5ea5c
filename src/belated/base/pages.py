"""Pages: HTML from templates, every value escaped."""

from __future__ import annotations


def page(package: str, template: str, /, **values: object) -> str:
    """Return a template, from a package's folder ``templates``, filled with values, which are escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template).render(**values)
