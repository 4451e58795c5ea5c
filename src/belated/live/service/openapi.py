"""The OpenAPI document, made from the table of routes and the types of requests and replies."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from belated.base.documents import JsonObject
from belated.base.version import __version__
from belated.live.service.calls import JSON, Endpoint
from belated.live.service.problems import KINDS, PROBLEM_JSON, ProblemDocument

#: What a code means, beside the kinds of problems that have it.
_MEANINGS = {
    200: "Done.", 201: "Made.", 202: "Parked: the unit was never asked.", 204: "Done.", 304: "Nothing is new.",
}  # fmt: skip


def document(endpoints: Sequence[Endpoint]) -> JsonObject:
    """Return the document."""
    types = [kind for each in endpoints for kind in (each.takes, each.gives, each.stopped) if kind is not None]
    wanted = list(dict.fromkeys([*types, ProblemDocument]))
    _, components = msgspec.json.schema_components(wanted, ref_template="#/components/schemas/{name}")
    paths: dict[str, JsonObject] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "belated live", "version": __version__, "description": "Live experiments over HTTP."},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "responses": {str(code): _problem(code) for code in sorted({code for code, _ in KINDS.values()})},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(each: Endpoint) -> JsonObject:
    operation: JsonObject = {"operationId": each.handle.__name__, "summary": each.summary}
    if each.scopes:
        operation["description"] = f"Scopes: {', '.join(each.scopes)}."
        operation["security"] = [{"token": []}]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", each.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": meaning, "schema": {"type": "string"}}
        for name, meaning in each.options
    ]
    if parameters:
        operation["parameters"] = parameters
    if each.takes is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(each.takes)}}}
    operation["responses"] = {str(code): _response(each, code) for code in codes(each)}
    return operation


def codes(each: Endpoint) -> list[int]:
    """Return every code that a route can reply with."""
    possible = {*each.codes, 421, 431, 500}
    if each.scopes:
        possible |= {401, 403, 429, 503}
    if "{" in each.path:
        possible |= {400, 404}
    if each.takes is not None:
        possible |= {400, 403, 408, 413, 415, 422, 503}
    if each.options:
        possible.add(422)
    return sorted(possible)


def _response(each: Endpoint, code: int) -> JsonObject:
    if code == 409 and each.stopped is not None:
        return _problem(code, each.stopped)
    if code >= 400:
        return {"$ref": f"#/components/responses/{code}"}
    response: JsonObject = {"description": _MEANINGS[code]}
    if code not in (204, 304):
        schema = {} if each.gives is None else {"schema": _reference(each.gives)}
        response["content"] = dict.fromkeys(each.media, schema)
    return response


def _problem(code: int, gives: type = ProblemDocument) -> JsonObject:
    words = "; ".join(kind.title for kind in KINDS.values() if kind.status == code)
    return {"description": f"{words}.", "content": {PROBLEM_JSON.decode(): {"schema": _reference(gives)}}}


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
