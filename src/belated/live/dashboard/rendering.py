"""Rendering: pages from templates, with what they all share, and the files that they load."""

from __future__ import annotations

import datetime as dt
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from belated.base.documents import apart
from belated.base.text import one_line
from belated.base.version import __version__

_PACKAGE = "belated.live.dashboard"


class File(NamedTuple):
    """A file that pages load: its content, type and tag."""

    content: bytes
    media: str
    tag: str


@cache
def templates() -> Environment:
    """Return the templates of the dashboard, and those of reports that it shares."""
    loader = ChoiceLoader([PackageLoader(_PACKAGE), PackageLoader("belated.reports")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"ago": ago, "apart": apart, "at": at, "line": one_line, "number": number}
    environment.globals |= {
        "link": link,
        "version": __version__,
        "styles": file("dashboard.css").tag,
        "script": file("dashboard.js").tag,
    }
    return environment


def render(template: str, **values: object) -> str:
    """Return a template filled with escaped values."""
    return templates().get_template(template).render(**values)


@cache
def file(name: str) -> File:
    """Return a file that pages load; the styles are those of reports with some of their own."""
    if name == "dashboard.css":
        loader = ChoiceLoader([PackageLoader(_PACKAGE), PackageLoader("belated.reports")])
        environment = Environment(loader=loader, autoescape=False, undefined=StrictUndefined, trim_blocks=True)  # noqa: S701 - no HTML
        content, media = environment.get_template(name).render().encode(), "text/css; charset=utf-8"
    else:
        content = files(_PACKAGE).joinpath("templates", name).read_bytes()
        media = "image/svg+xml" if name.endswith(".svg") else "text/javascript; charset=utf-8"
    return File(content, media, blake2b(content, digest_size=12).hexdigest())


# ---------------------------------------------------------------- words


def link(path: str, experiment: str | None = None, **values: str) -> Markup:
    """Return the address of a page; a name is part of its query, where nothing can change the path."""
    query = ({} if experiment is None else {"experiment": experiment}) | values
    return Markup.escape(f"{path}?{urlencode(query)}" if query else path)


def at(moment: dt.datetime) -> str:
    """Return a time in UTC, to the second."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def ago(seconds: float | None) -> str:
    """Return how long something took or is ago, in the largest unit that it fills."""
    if seconds is None:
        return "–"
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            return f"{seconds / size:.0f}\u00a0{unit}"
    return f"{max(seconds, 0.0) * 1000:.0f}\u00a0ms"


def number(value: float | None) -> str:
    """Return a count or a rate."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
