"""`belated live serve` and `belated live token`: live experiments over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from belated.base.errors import OptionError, argument
from belated.cli.live import Author, Format, Place
from belated.cli.live import _store as opened_store
from belated.cli.options import option
from belated.cli.output import check_format, show

Scopes = Annotated[str, option("The scopes, from ask,tell,read,units,admin.")]


def serve(
    place: Place,
    host: Annotated[
        str, option("The address to listen on; 127.0.0.1 can be reached from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 chooses a free one.", min=0, max=65535)] = 8765,
    workers: Annotated[int, typer.Option(help="The number of processes; more than one needs a database.", min=1)] = 1,
    public: Annotated[
        bool, typer.Option("--public", help="Let other machines reach the service; put an https proxy in front of it.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A host name of the service, such as experiments.example.org; may be repeated.", show_default=False
        ),
    ] = None,
    rate: Annotated[
        float | None, option("The largest number of requests per second for each token. Default: no limit.")
    ] = None,
) -> None:
    """Serve a store over HTTP until Ctrl-C. The printed link logs a browser in.

    Example: `belated live serve shop.belated`
    """
    from belated.live.creating import author_of
    from belated.live.service.settings import Settings
    from belated.live.serving import Server, check_host, login_link

    hosts = check_host(host, tuple(allow_host or ()), public=public)
    if rate is not None and not rate > 0:
        raise OptionError(f"{argument('rate')} is {rate:g}; it must be more than 0.")
    if workers > 1 and "://" not in place:
        typer.echo("Only one process can serve a file; use PostgreSQL for more.", err=True)
        workers = 1
    author = author_of(None, "").author

    def ready(address: str) -> None:
        shown = f"https://{hosts[0]}" if public else address
        typer.echo(f"Serving {shown}; stop with Ctrl-C.")
        typer.echo(f"Log in once, within 10 minutes: {login_link(place, shown, author)}")

    settings = Settings(hosts=hosts, secure=public, rate=rate)
    Server(place=place, host=host, port=port, workers=workers, settings=settings).run(ready)


def make(
    place: Place,
    label: Annotated[str, typer.Argument(help="The owner, such as checkout.", show_default=False)],
    scopes: Scopes = "ask,tell",
    experiment: Annotated[str | None, option("The only experiment that it allows. Default: all.")] = None,
    expires: Annotated[str, option("How long it is valid, such as 30d, or never.")] = "365d",
    author: Author = None,
) -> None:
    """Make a token of the service. It is printed once; the store keeps only its hash.

    Example: `belated live token create shop.belated checkout --scopes ask,tell --expires 90d`
    """
    from belated.live.creating import author_of
    from belated.live.tokens import make_token

    with opened_store(place) as store:
        secret, token = make_token(
            store.storage, label, _words(scopes), author=author_of(author, "").author, experiment=experiment,
            lasting=expires,
        )  # fmt: skip
    until = "does not expire" if token.expires_at is None else f"expires on {token.expires_at:%Y-%m-%d %H:%M} UTC"
    typer.echo(secret)
    typer.echo(f"Token {token.id} {until}; it is shown only now.", err=True)


def _words(scopes: str) -> list[str]:
    return [word.strip() for word in scopes.split(",") if word.strip()]


def list_(place: Place, format: Format = "table") -> None:
    """Print the tokens of a store, with owners and scopes, but not the tokens themselves.

    Example: `belated live token list shop.belated`
    """
    from belated.live.tokens import tokens

    form = check_format(format)
    with opened_store(place) as store:
        show(tokens(store.storage), form)


def revoke(
    place: Place, number: Annotated[int, typer.Argument(help="The number of the token.", show_default=False)]
) -> None:
    """End a token; servers notice within seconds.

    Example: `belated live token revoke shop.belated 16777216`
    """
    from belated.live.tokens import revoke as ended

    with opened_store(place) as store:
        typer.echo("revoked" if ended(store.storage, number) else "it had ended before")


def link(
    place: Place,
    address: Annotated[str, option("The address of the service.")] = "http://127.0.0.1:8765",
    label: Annotated[str | None, option("The owner. Default: this user.")] = None,
    scopes: Scopes = "read,admin",
    experiment: Annotated[str | None, option("The only experiment that it allows. Default: all.")] = None,
) -> None:
    """Print a link that logs a browser in, once and within 10 minutes.

    Example: `belated live token link shop.belated --label Ada --scopes read`
    """
    from belated.live.connecting import read_address
    from belated.live.creating import author_of
    from belated.live.tokens import make_token

    home = read_address(address, "address")
    author = author_of(None, "").author
    with opened_store(place) as store:
        secret, _ = make_token(
            store.storage, label or author, _words(scopes), author=author, experiment=experiment, kind="link"
        )
    typer.echo(f"{home}/login?code={secret}")
