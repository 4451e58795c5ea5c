"""Serving: uvicorn with an application, in one process or several, and without patience for slow clients."""

from __future__ import annotations

import functools
import ipaddress
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from belated.base.errors import OptionError, argument
from belated.live.dashboard.pages import routes
from belated.live.service import journal
from belated.live.service.app import App, make_app
from belated.live.service.protocol import Protocol
from belated.live.service.settings import Settings
from belated.live.store import open_store
from belated.live.tokens import make_token

#: Seconds for which requests that were accepted may go on after the service is told to stop.
_GRACE = 30

#: The most files and connections that a process may have open: the usual 1,024 are few, and at the limit Python writes
#: thousands of lines to the log each second.
_CONNECTIONS = 65_536

#: Connections that wait to be accepted.
_BACKLOG = 2048


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where and how a store is served.

    Attributes
    ----------
    place : str
        The store: a file, or the URL of a database.
    host, port : str, int
        Where to listen; port 0 is any that is free.
    workers : int
        How many processes serve; more than one only a database.
    settings : Settings
    """

    place: str
    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    settings: Settings = Settings()  # noqa: RUF009 - it is frozen

    def run(self, ready: Callable[[str], None]) -> None:
        """Serve until a signal ends it; `ready` is called with the address."""
        with open_store(self.place, make=False, ticking=False):
            pass  # what is wrong with the store is said before anything listens
        allow_connections()
        with self._listening() as listener:
            ready(self.address(listener))
            config = self._config()
            if self.workers > 1:
                Multiprocess(config, sockets=[listener]).run()
            else:
                uvicorn.Server(config).run(sockets=[listener])

    def address(self, listener: socket.socket) -> str:
        """Return the URL at which a socket listens."""
        port = listener.getsockname()[1]
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{port}"

    def _listening(self) -> socket.socket:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            listener.set_inheritable(True)
        except OSError as error:
            raise OptionError(
                f"The service cannot listen at {self.host}, port {self.port}: {error.strerror}."
            ) from None
        return listener

    def _config(self) -> uvicorn.Config:
        application = functools.partial(_application, self.place, self.settings)
        return configured(application, factory=True, workers=self.workers)


def configured(app: App | Callable[[], App], **options: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for an application, or for what makes one."""
    return uvicorn.Config(
        app, http=Protocol, ws="none", log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=_GRACE, backlog=_BACKLOG, **options,
    )  # fmt: skip


def _application(place: str, settings: Settings) -> App:
    """Open the store and return the application, in the process that serves it."""
    journal.configure()
    return make_app(open_store(place, make=False), settings, routes(), alone=True)


def allow_connections() -> None:
    """Let this process have many connections open, where the system says so at first of fewer than it allows."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, _CONNECTIONS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def check_host(host: str, names: tuple[str, ...], *, public: bool) -> tuple[str, ...]:
    """Return the names by which a service may be addressed; raise if others would reach it without being meant to."""
    own = Settings().hosts
    if is_loopback(host):
        return (*own, *(name.lower() for name in names))
    if not public or not names:
        raise OptionError(
            f"{argument('host', host)} is reached by others; say so with {argument('public')}, and name the hosts by "
            f"which it is addressed with {argument('allow_host')}."
        )
    return tuple(name.lower() for name in names)


def login_link(place: str, address: str, author: str) -> str:
    """Return a link by which a browser can log in once."""
    with open_store(place, make=False, ticking=False) as store:
        secret, _ = make_token(store.storage, author, ["read", "admin"], author=author, kind="link")
    return f"{address}/login?code={secret}"
