"""Logging in: a browser exchanges a one-time link for a cookie, and forgets it again."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from belated.base.documents import page
from belated.live.service import access, journal
from belated.live.service.problems import Problem, problem_of
from belated.live.service.service import Service
from belated.live.tokens import Scope, Token, revoke, use_link

#: What every page may load: nothing of other sites, and no script or style within it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without one, browsers say that forms come from nowhere
    "cache-control": "no-store",
}

#: The most bytes of a form, and seconds that a browser stays logged in.
_FORM, _STAYS = 1 << 16, 12 * 3600


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of several of one name the last."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _FORM:
            raise Problem("too-large", f"The form is larger than {_FORM:,} bytes; send less.")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000, errors="strict")
    except ValueError:
        raise Problem("malformed", "The form cannot be read.") from None
    return {name: values[-1] for name, values in fields.items()}


async def browser(request: Request, *scopes: Scope, experiment: str | None = None, whole: bool = True) -> Token:
    """Return who requests a page; raise if they may not see it. `Endpoint` explains `whole`."""
    service: Service = request.app.service
    secret = access.cookie(access.headers_of(request.scope))
    if secret is None:
        raise Problem("no-token", "You are not logged in; open a link that `belated live token link` prints.")
    token = await service.keyring.find(secret, "browser")
    place = experiment if experiment is not None or whole else token.experiment
    access.check_scopes(token, scopes, place)
    return token


async def checked_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page of this browser's login sent."""
    secret = access.cookie(access.headers_of(request.scope))
    form = await read_form(request)
    access.check_form(secret or "", form.pop("form", ""))
    return form


def form_key(request: Request) -> str:
    """Return the value of the field `form` in the forms of a page."""
    return access.form_key(access.cookie(access.headers_of(request.scope)) or "")


async def page_problem(request: Request, error: Exception) -> Response:
    """Return a page that says what is wrong."""
    problem = problem_of(error)
    if isinstance(error, HTTPException):
        problem = Problem("not-found", "Look at the address.")
        if error.status_code == 405:
            problem = Problem("method", "Use another method here.")
    if problem.kind == "internal":
        journal.failed("(page)", error)
    return _page(problem.status, problem.headers, title=problem.title, detail=problem.detail, code=None)


def _page(status: int = 200, more: Mapping[str, str] | None = None, **values: object) -> Response:
    html = page("belated.live.service", "login.html", **values)
    return HTMLResponse(html, status, headers={**PAGE_HEADERS, **(more or {})})


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes for logging in and out."""

    async def ask(request: Request) -> Response:
        code = request.query_params.get("code", "")
        if not code:
            raise Problem("no-token", "Open a link that `belated live token link` prints.")
        return _page(title="Log in", detail="The link can be used once.", code=code)

    async def enter(request: Request) -> Response:
        form = await read_form(request)
        session = await service.thread(use_link, service.store.storage, form.get("code", ""))
        if session is None:
            raise Problem(
                "no-token", "The link was used before, or has expired; make a new one with `belated live token link`."
            )
        service.keyring.forget()
        reply = RedirectResponse("/", 303, headers=PAGE_HEADERS)
        secure = service.settings.secure or request.url.scheme == "https"
        reply.set_cookie(access.COOKIE, session[0], _STAYS, httponly=True, samesite="strict", secure=secure)
        return reply

    async def leave(request: Request) -> Response:
        await checked_form(request)
        token = await browser(request, whole=False)
        await service.thread(revoke, service.store.storage, token.id)
        service.keyring.forget()
        reply = RedirectResponse("/login/out", 303, headers=PAGE_HEADERS)
        reply.delete_cookie(access.COOKIE, httponly=True, samesite="strict")
        return reply

    async def out(request: Request) -> Response:
        return _page(title="Logged out", detail="To log in again, open a new link.", code=None)

    return [
        Route("/login", ask, methods=["GET"]),
        Route("/login", enter, methods=["POST"]),
        Route("/login/out", out, methods=["GET"]),
        Route("/logout", leave, methods=["POST"]),
    ]
