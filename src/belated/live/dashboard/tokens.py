"""Tokens by a form: those that there are, and the fields of a new one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from belated.base.errors import BelatedError, OptionError
from belated.base.text import one_line
from belated.live.dashboard.forms import FormField, FormValues, duration, needed
from belated.live.design import read_text
from belated.live.records import moment
from belated.live.store import Store
from belated.live.tokens import SCOPES, Token, make_token, revoke, tokens
from belated.log.durations import read_duration

__all__ = ["fields", "listed", "make", "revoke"]

_SCOPE_HELP = {
    "ask": "get the arms of units",
    "tell": "store outcomes",
    "read": "read answers, logs and these pages",
    "units": "see and erase the names of units",
    "admin": "create and change experiments, and make tokens",
}


def fields(names: Sequence[str], owner: Token) -> list[FormField]:
    """Return the fields of a new token."""
    given = [scope for scope in SCOPES if scope != "units" or "units" in owner.scopes]
    every = [("", "all experiments"), *((name, one_line(name, 80)) for name in names)]
    return [
        FormField(
            "label", "Label", "The owner, such as checkout. Changes made with the token have this name as their author."
        ),
        *(
            FormField(
                f"scope-{scope}",
                scope,
                f"May {_SCOPE_HELP[scope]}.",
                value="yes" if scope in ("ask", "tell") else "",
                kind="tick",
            )
            for scope in given
        ),
        FormField("experiment", "Experiment", "What it is for.", kind="choice", choices=every, optional=True),
        FormField("expires", "Expires after", "Such as 30d or 12h, or never.", value="90d"),
    ]


def _lasting(text: str) -> str:
    read_duration(text, "expires")
    return text


def listed(store: Store) -> tuple[list[Token], dt.datetime]:
    """Return the tokens of programs, and the storage's time."""
    with store.storage.reading() as session:
        now = moment(session.now)
    return list(tokens(store.storage)), now


def make(
    store: Store, form: Mapping[str, str], wanted: Sequence[FormField], owner: Token
) -> tuple[str | None, FormValues]:
    """Make the token of a form; return its secret, None if something is wrong."""
    given = FormValues(form, wanted)
    allowed = [field.name for field in wanted if field.name.startswith("scope-")]
    scopes = [name.removeprefix("scope-") for name in allowed if form.get(name)]
    label = given.read("label", lambda text: read_text("label", needed(text)))
    expires = given.read("expires", lambda text: text if text == "never" else duration(_lasting)(text))
    experiment = form.get("experiment") or None
    if not scopes:
        given.refuse(allowed[0], OptionError("Tick at least one."))
    if given.errors or label is None:
        return None, given
    try:
        secret, _ = make_token(store.storage, label, scopes, author=owner.label, experiment=experiment, lasting=expires)
    except BelatedError as error:
        given.refuse("expires", error)
        return None, given
    return secret, given
