"""`open`: a store of live experiments in a file, a database or a service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from belated.base.errors import OptionError, argument
from belated.live.storage import TimeSource
from belated.live.store import open_store, read_place

if TYPE_CHECKING:
    from belated.live.interface import LiveStore
    from belated.live.remote import Fallback


def open(  # noqa: A001, PLR0913
    place: str | os.PathLike[str],
    *,
    make: bool = True,
    ticking: bool = True,
    clock: TimeSource | None = None,
    limit: int | None = None,
    token: str | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    fallback: Fallback | None = None,
) -> LiveStore:
    """Open a store of live experiments: a file, a PostgreSQL database, or a service that is asked over HTTP.

    Parameters
    ----------
    place : path or URL
        Such as ``"shop.belated"``, ``"postgresql://user@host/db"`` or ``"https://experiments.example.org"``.
    make : bool
        Whether to make the file, or the tables of the database, if they do not exist.
    ticking : bool
        Whether to make policy versions while experiments run; if not, call `Experiment.tick`. A service always does.
    clock : callable, optional
        The time in microseconds since 1970, for rehearsals in accelerated time; by default the storage's own.
    limit : int, optional
        How many asks and tells may wait for a file or a database; further ones are refused at once with
        `OverloadedError`.
    token : str, optional
        A service's token, as `belated live token create` prints it; by default the environment's BELATED_TOKEN.
    timeout : float, optional
        The time limit of a call to a service, with all retries, in seconds: 10 by default; 600 for answers, logs,
        checks and copies.
    retries : int, optional
        How often a call to a service is sent again, 4 by default. Nothing is stored twice.
    fallback : str or dict, optional
        The arm that is given if a service cannot be reached, or such arms by experiment. Such a decision is not in the
        log, and its `logged` is False.

    Returns
    -------
    Store or RemoteStore

    Examples
    --------
    >>> import belated as bl, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with bl.live.open(f"{folder.name}/shop.belated") as store:
    ...     exp = store.create("button", arms=["Buy", "Order"], policy=bl.policies.uniform(), outcome=bl.live.binary())
    ...     _ = exp.start()
    ...     first, again = exp.ask("customer-17"), exp.ask("customer-17")
    >>> first.arm == again.arm, again.repeated, first.probabilities
    (True, True, {'Buy': 0.5, 'Order': 0.5})
    >>> folder.cleanup()
    """
    text = read_place(place)
    of_service = {"token": token, "timeout": timeout, "retries": retries, "fallback": fallback}
    if text.startswith(("https://", "http://")):
        _check_unused({"clock": clock, "limit": limit}, "is of a file or a database, and this is a service")
        from belated.live.connecting import ServiceConnection
        from belated.live.remote import RemoteStore

        return RemoteStore(ServiceConnection(text, token, timeout, retries), fallback)
    _check_unused(of_service, "is of a service, whose address begins with https:// or http://")
    return open_store(place, make=make, ticking=ticking, clock=clock, limit=limit)


def _check_unused(options: Mapping[str, object], why: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"{argument(name)} {why}; leave it out.")
