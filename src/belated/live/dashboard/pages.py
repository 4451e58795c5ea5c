"""Pages: what a browser sees of a service, and the forms that it sends."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from belated.assumptions.checks.check import LIGHTS
from belated.base.text import printable
from belated.live.answers import LiveAnswer
from belated.live.dashboard import changing, creating, tokens
from belated.live.dashboard.history import change_words
from belated.live.dashboard.machine import read_machine
from belated.live.dashboard.overview import ExperimentOverview, read_overview
from belated.live.dashboard.rendering import file, render
from belated.live.dashboard.shelf import Shelf
from belated.live.design import Snapshot, snapshot
from belated.live.errors import OutdatedError
from belated.live.experiment import Experiment
from belated.live.service import journal
from belated.live.service.calls import has_tag
from belated.live.service.login import PAGE_HEADERS, browser, checked_form, form_key
from belated.live.service.problems import Problem, problem_of
from belated.live.service.service import Service
from belated.live.tokens import Scope, Token

#: The pages of an experiment: path and words; the contents of all but the last are made from an answer.
TABS = (
    ("/answer", "Answer"),
    ("/over-time", "Over time"),
    ("/arrivals", "Arrivals"),
    ("/soundness", "Soundness"),
    ("/changes", "Changes"),
)

#: What a report may load: it is one file, with its styles.
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"

#: Changes that the audit of a page shows.
_MOST_CHANGES = 100

_Handler = Callable[[Request], Awaitable[Response]]


def routes() -> list[BaseRoute]:
    """Return the routes of all pages, for `make_app`; those that it does not know are a page, too."""
    pages = Pages()
    known: list[BaseRoute] = [
        Route("/", guarded(pages.experiments), methods=["GET"]),
        Route("/new", guarded(pages.new), methods=["GET"]),
        Route("/new", guarded(pages.create), methods=["POST"]),
        *(Route(path, guarded(pages.tab), methods=["GET"]) for path, _ in TABS[:-1]),
        Route("/report", guarded(pages.report), methods=["GET"]),
        Route("/changes", guarded(pages.changes), methods=["GET"]),
        Route("/changes", guarded(pages.change), methods=["POST"]),
        Route("/tokens", guarded(pages.tokens), methods=["GET"]),
        Route("/tokens", guarded(pages.make_token), methods=["POST"]),
        Route("/tokens/revoke", guarded(pages.revoke), methods=["POST"]),
        Route("/machine", guarded(pages.machine), methods=["GET"]),
    ]
    files = {f"/{name}": name for name in ("dashboard.css", "dashboard.js", "favicon.svg")}
    files["/favicon.ico"] = "favicon.svg"
    known += [Route(path, _loaded(name), methods=["GET"]) for path, name in files.items()]
    return [*known, Route("/{path:path}", guarded(_unknown), methods=["GET", "POST"])]


def guarded(handle: _Handler) -> _Handler:
    """Return a handler that says what is wrong as a page."""

    async def safe(request: Request) -> Response:
        try:
            return await handle(request)
        except Exception as error:
            return problem_page(request, error)

    return safe


def problem_page(request: Request, error: Exception) -> Response:
    """Return a page that says what is wrong, in one sentence."""
    problem = problem_of(error)
    if problem.kind == "internal":
        journal.failed("(page)", error)
    html = render("problem.html", problem=problem, token=None, form="", path=request.url.path)
    return HTMLResponse(html, problem.status, headers={**PAGE_HEADERS, **problem.headers})


async def _unknown(request: Request) -> Response:
    raise Problem("not-found", "There is no such page; the list of experiments leads to all others.")


def _loaded(name: str) -> _Handler:
    async def load(request: Request) -> Response:
        content, media, tag = file(name)
        headers = {"etag": f'"{tag}"', "cache-control": "no-cache", "x-content-type-options": "nosniff"}
        if has_tag(request.headers.get("if-none-match", ""), headers["etag"]):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media, headers=headers)

    return load


def reply(request: Request, html: str, status: int = 200) -> Response:
    """Return a page or a part of one; a part that the browser has is not sent again."""
    tag = f'"{blake2b(html.encode(), digest_size=12).hexdigest()}"'
    headers = {**PAGE_HEADERS, "etag": tag, "cache-control": "no-cache, private"}
    if status == 200 and has_tag(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    return HTMLResponse(html, status, headers=headers)


def _moved(path: str, **query: str) -> Response:
    return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303, headers=PAGE_HEADERS)


def _note(request: Request, token: Token) -> None:
    """Log that a form has changed something, as a change over HTTP is."""
    journal.note("changed", route=f"POST {request.url.path}", token=token.id)


def _part(request: Request) -> str | None:
    return request.query_params.get("part")


def _service(request: Request) -> Service:
    service: Service = request.app.service
    return service


class Pages:
    """The handlers of all pages, and the answers that they show."""

    def __init__(self) -> None:
        self._shelf: Shelf | None = None

    def shelf(self, request: Request) -> Shelf:
        """Return the answers of the application's service."""
        if self._shelf is None:
            self._shelf = Shelf(_service(request))
        return self._shelf

    def _page(self, request: Request, template: str, token: Token, status: int = 200, **values: object) -> Response:
        """Return a page with what all of them share."""
        shared = {"token": token, "form": form_key(request), "path": request.url.path, "tabs": TABS, "lights": LIGHTS}
        done = changing.change_done(request.query_params.get("done", ""))
        return reply(request, render(template, **{"done": done, **shared, **values}), status)

    # ---------------------------------------------------------------- experiments

    async def experiments(self, request: Request) -> Response:
        """List the experiments."""
        token = await browser(request, "read", whole=False)
        service, shelf = _service(request), self.shelf(request)
        names = [token.experiment] if token.experiment is not None else await service.thread(_names, service)
        experiments = [await service.experiment(name) for name in names]
        overviews = await service.thread(lambda: [read_overview(exp) for exp in experiments])
        rows = [(overview, shelf.kept(exp.name)) for exp, overview in zip(experiments, overviews, strict=True)]
        shelf.begin_all([exp for exp, overview in zip(experiments, overviews, strict=True) if overview.status.asked])
        if _part(request):
            return reply(request, render("contents/experiments.html", rows=rows, lights=LIGHTS))
        return self._page(request, "experiments.html", token, rows=rows)

    async def new(self, request: Request) -> Response:
        """Show the form by which an experiment is created."""
        token = await browser(request, "admin")
        return self._page(request, "new.html", token, fields=creating.CREATE_FIELDS, values={}, errors={})

    async def create(self, request: Request) -> Response:
        """Create an experiment, or say beside each field what is wrong."""
        token = await browser(request, "admin")
        form, service = await checked_form(request), _service(request)
        exp, given = await service.thread(creating.create, service.store, form, token.label)
        if exp is not None:
            _note(request, token)
            return _moved("/answer", experiment=exp.name, done="create")
        fields = creating.CREATE_FIELDS
        return self._page(request, "new.html", token, 422, fields=fields, values=given.values, errors=given.errors)

    # ---------------------------------------------------------------- one experiment

    async def _experiment(self, request: Request, *scopes: Scope) -> tuple[Token, Experiment]:
        name = request.query_params.get("experiment", "")
        token = await browser(request, *scopes, experiment=name)
        return token, await _service(request).experiment(name)

    async def tab(self, request: Request) -> Response:
        """Show the answer, or a page made from it; the page comes at once, with the latest answer."""
        token, exp = await self._experiment(request, "read")
        name, part = request.url.path[1:], _part(request)
        overview = await _service(request).thread(read_overview, exp)
        if part == "facts":
            return reply(request, self._facts(exp, overview, request))
        shown = await self.shelf(request).latest(exp) if overview.status.version else None
        refused = _service(request).metrics.contradictions(exp.name)
        extra: dict[str, object] = {"exp": exp, "overview": overview, "shown": shown, "page": name, "refused": refused}
        if part is not None:
            return reply(request, render("contents/content.html", **extra))
        return self._page(request, "tab.html", token, 200, **extra)

    def _facts(self, exp: Experiment, overview: ExperimentOverview, request: Request) -> str:
        shown = self.shelf(request).kept(exp.name)
        return render("contents/facts.html", exp=exp, overview=overview, shown=shown, lights=LIGHTS)

    async def report(self, request: Request) -> Response:
        """Send the report, one HTML file."""
        _, exp = await self._experiment(request, "read")
        service = _service(request)
        content = await service.compute(_report, await service.answer(exp.name))
        named = f"attachment; {_file_name(exp.name)}"
        headers = {**PAGE_HEADERS, "content-security-policy": _REPORT_POLICY, "content-disposition": named}
        return HTMLResponse(content, headers=headers)

    async def changes(self, request: Request) -> Response:
        """Show the audit, and the forms of what can be changed."""
        token, exp = await self._experiment(request, "read")
        if _part(request) == "facts":
            overview = await _service(request).thread(read_overview, exp)
            return reply(request, self._facts(exp, overview, request))
        return await self._changes(request, token, exp, 200)

    async def _changes(self, request: Request, token: Token, exp: Experiment, status: int, **typed: object) -> Response:
        service = _service(request)
        overview = await service.thread(read_overview, exp)
        audit = list(await service.thread(exp.changes))
        about = await service.thread(_snapshot, exp)
        rows = [(each, change_words(each)) for each in reversed(audit[-_MOST_CHANGES:])]
        values = {
            "exp": exp,
            "overview": overview,
            "shown": self.shelf(request).kept(exp.name),
            "page": "changes",
            "audit": rows,
            "all": len(audit),
            "actions": changing.actions(about) if "admin" in token.scopes else [],
            "what": "",
            "values": {},
            "errors": {},
            "problem": "",
            **typed,
        }
        return self._page(request, "changes.html", token, status, **values)

    async def change(self, request: Request) -> Response:
        """Say what a change would do, and make it once that was confirmed."""
        token, exp = await self._experiment(request, "admin")
        form, service = await checked_form(request), _service(request)
        seen = await service.thread(_seen, exp)
        held = await service.thread(exp._unchanged_since, seen)
        change, action, given = await service.thread(changing.read_change, held, form)
        if change is not None and form.get("seen") == str(seen):
            try:
                await service.thread(change.make, token.label)
                _note(request, token)
                return _moved("/changes", experiment=exp.name, done=action.what)
            except OutdatedError:  # a form that is sent twice at once, also to two servers, makes its change once
                change, action, given = await service.thread(changing.read_change, exp, form)
                seen = await service.thread(_seen, exp)
        if change is None:
            typed = {"what": action.what, "values": given.values, "errors": given.errors}
            return await self._changes(request, token, exp, 422, **typed)
        kept = {field.name: form.get(field.name, "") for field in action.all_fields}
        overview = await service.thread(read_overview, exp)
        return self._page(
            request,
            "confirm.html",
            token,
            exp=exp,
            change=change,
            action=action,
            kept=kept,
            seen=seen,
            overview=overview,
            again="seen" in form,
        )

    # ---------------------------------------------------------------- the store

    async def tokens(self, request: Request) -> Response:
        """List the tokens, with the form of a new one."""
        token = await browser(request, "admin")
        return await self._tokens(request, token, 200)

    async def _tokens(self, request: Request, token: Token, status: int, **typed: object) -> Response:
        service = _service(request)
        listed, now = await service.thread(tokens.listed, service.store)
        fields = tokens.fields(await service.thread(_names, service), token)
        values = {"listed": listed, "now": now, "fields": fields, "values": {}, "errors": {}, "secret": None, **typed}
        return self._page(request, "tokens.html", token, status, **values)

    async def make_token(self, request: Request) -> Response:
        """Make a token, and show it once."""
        token = await browser(request, "admin")
        form, service = await checked_form(request), _service(request)
        fields = tokens.fields(await service.thread(_names, service), token)
        secret, given = await service.thread(tokens.make, service.store, form, fields, token)
        if secret is None:
            return await self._tokens(request, token, 422, values=given.values, errors=given.errors)
        service.keyring.forget()
        _note(request, token)
        shown = await self._tokens(request, token, 200, secret=secret)
        shown.headers["cache-control"] = "no-store"  # it is shown once
        return shown

    async def revoke(self, request: Request) -> Response:
        """Revoke a token once that was confirmed."""
        token = await browser(request, "admin")
        form, service = await checked_form(request), _service(request)
        listed, _ = await service.thread(tokens.listed, service.store)
        ended = [each for each in listed if str(each.id) == form.get("id")]
        if not ended:
            raise Problem("unknown-token", "There is no such token; load the list again.")
        if not form.get("confirmed"):
            return self._page(request, "revoke.html", token, ended=ended[0])
        await service.thread(tokens.revoke, service.store.storage, ended[0].id)
        service.keyring.forget()
        _note(request, token)
        return _moved("/tokens", done="revoke")

    async def machine(self, request: Request) -> Response:
        """Show how busy the store is."""
        token = await browser(request, "read", whole=False)
        service = _service(request)
        names = [token.experiment] if token.experiment is not None else await service.thread(_names, service)
        values: dict[str, object] = {
            "machine": await service.thread(read_machine, service.store, names),
            "service": service,
        }
        if _part(request):
            return reply(request, render("contents/machine.html", **values))
        return self._page(request, "machine.html", token, 200, **values)


def _names(service: Service) -> list[str]:
    return list(service.store.experiments())


def _file_name(name: str) -> str:
    """Return the name of a report's file, for browsers that read any letter and for others."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_ ") else "_" for c in name)[:60].strip()
    every = quote(printable(name)[:60], safe="")
    return f"filename=\"{plain or 'report'}.html\"; filename*=UTF-8''{every}.html"


def _seen(exp: Experiment) -> int:
    return len(exp.changes())


def _snapshot(exp: Experiment) -> Snapshot:
    with exp._store.storage.reading() as session:
        return snapshot(session, exp.name)


def _report(answer: LiveAnswer) -> str:
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        return answer.report(Path(folder, "report.html")).read_text(encoding="utf-8")
