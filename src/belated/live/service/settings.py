"""`Settings`: the limits and options of a service."""

from __future__ import annotations

from dataclasses import dataclass

#: The names by which this machine calls itself.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The limits and options of a service.

    Attributes
    ----------
    hosts : tuple of str
        The names by which it may be addressed, without ports; requests for other names are refused.
    secure : bool
        Whether browsers reach it by https only, perhaps through a proxy; cookies are then never sent otherwise.
    body, batch_body : int
        The most bytes of a request, and of one with many units.
    batch : int
        The most units of a request.
    waiting : int
        The most requests that are being served at a time.
    memory : int
        The most bytes that their bodies may have together.
    rate : float or None
        The most requests a second of each token; None: any number.
    reading_seconds : float
        How long a client may take to send a request.
    labels : int
        How many experiments have metrics of their own.
    """

    hosts: tuple[str, ...] = LOOPBACK
    secure: bool = False
    body: int = 1 << 20
    batch_body: int = 8 << 20
    batch: int = 10_000
    waiting: int = 10_000
    memory: int = 256 << 20
    rate: float | None = None
    reading_seconds: float = 30.0
    labels: int = 100
