"""The JavaScript of docs/how-to/clients.md, in a browser and in Node, against a service."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browsers import WAIT
from documentation import ROOT, Page
from served import PATIENCE

import belated as bl
from tests.live.conftest import ServedPlace

pytestmark = pytest.mark.parametrize("engine", ["http"], indirect=True)

SNIPPET = next(
    block.text for block in Page(ROOT / "docs" / "how-to" / "clients.md").blocks if block.title == "experiments.js"
)

ACTS = """
const first = await ask("subject line/ä", "customer-17", "Plain", options);
const again = await ask("subject line/ä", "customer-17", "Plain", options);
const told = [];
for (let i = 0; i < 2; i++) told.push(await tell("subject line/ä", "customer-17", 1, options));
const refused = await tell("subject line/ä", "customer-17", 0, options).then(() => "", (error) => error.message);
const away = await ask("subject line/ä", "customer-18", "Plain", { ...options, base: nowhere });
const late = await ask("stopped", "customer-18", "Plain", options);
return { first, again, told, refused, away, late };
"""


class Site(ThreadingHTTPServer):
    """A product's own site: a page, and a path that passes requests on to the service with the token."""

    daemon_threads = True

    def __init__(self, place: ServedPlace) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.place = place
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        found = {
            "/": ("text/html", '<!doctype html><link rel="icon" href="data:,"><script src="experiments.js"></script>')
        }
        kind, text = found.get(self.path, ("text/javascript", SNIPPET))
        self._reply(200, kind, text.encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        served = self.server.place.served
        service = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        service.request("POST", self.path.removeprefix("/belated"), body, {"authorization": f"Bearer {served.token}"})
        reply = service.getresponse()
        self._reply(reply.status, "application/json", reply.read())
        service.close()

    def _reply(self, code: int, kind: str, content: bytes) -> None:
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def site(place: ServedPlace) -> Iterator[Site]:
    with Site(place) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def create(place: ServedPlace) -> bl.live.RemoteExperiment:
    """Create an experiment, and one that has stopped."""
    made = [place.create(name, arms=["Plain", "Emoji"], baseline="Plain") for name in ("stopped", "subject line/ä")]
    made[0].stop("Emoji")
    return made[1]


def check(exp: bl.live.RemoteExperiment, found: dict) -> None:
    assert found["first"]["arm"] == found["again"]["arm"] == exp.ask("customer-17").arm
    assert [found["first"]["logged"], found["first"]["repeated"], found["again"]["repeated"]] == [True, False, True]
    assert [each["status"] for each in found["told"]] == ["new", "repeated"]
    assert "correction" in found["refused"]
    assert found["away"] == {"unit": "customer-18", "arm": "Plain", "logged": False}
    assert (found["late"]["arm"], found["late"]["logged"]) == ("Emoji", False)
    assert exp.answer().counts == bl.live.Counts(asked=1, told=1)


def test_in_a_browser(chromium, place, site):
    exp = create(place)
    page = chromium.new_page()
    page.set_default_timeout(WAIT)
    page.goto(site.url)
    call = f"async () => {{ const options = {{ timeout: 300000 }}, nowhere = 'http://127.0.0.1:9';{ACTS} }}"
    found = page.evaluate(call.replace("base: nowhere", "base: nowhere, timeout: 300"))
    page.close()
    check(exp, found)


def test_in_node(place):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    exp = create(place)
    options = {"base": place.url, "token": place.served.token, "timeout": 300000}
    acts = ACTS.replace("base: nowhere", "base: nowhere, timeout: 300")
    script = f"""{SNIPPET}
const options = {json.dumps(options)}, nowhere = "http://127.0.0.1:9";
(async () => {{{acts}}})().then((found) => console.log(JSON.stringify(found)));"""
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, timeout=60)  # noqa: S607
    assert not done.stderr
    check(exp, json.loads(done.stdout))


def test_a_pause_does_not_outlast_the_timeout(place):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    script = f"""{SNIPPET}
const later = globalThis.setTimeout;
globalThis.setTimeout = (act) => later(act, 30000);
ask("button", "x", "Plain", {{ base: "http://127.0.0.1:9", token: "x", timeout: 300 }}).then((found) => {{
  console.log(found.arm, performance.now() < 25000);
  process.exit();
}});"""
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, timeout=60)  # noqa: S607
    assert done.stdout == "Plain true\n", done.stderr
