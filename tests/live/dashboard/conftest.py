from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from browsers import WAIT
from served import Reply, Served, serving

import belated as bl
from belated.live.dashboard.pages import routes
from belated.live.rehearsal import STEP, rehearse
from belated.live.storage import system_clock
from belated.live.store import Store, open_storage
from belated.live.tokens import make_token

RATES = {"Plain": 0.10, "Emoji": 0.15, "Question": 0.11, "Your name": 0.30}


class Time:
    """A clock that a rehearsal moves."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def fill(path: Any, rows: int = 1500) -> None:
    """Make a store with an experiment that has seen something: late outcomes, changes, parked ones, corrections."""
    time = Time(system_clock() - rows * STEP)
    bandit = bl.Bandit(
        {arm: bl.arms.bernoulli(rate) for arm, rate in RATES.items()}, bl.delays.geometric(40).censored(0.1)
    )
    with Store(open_storage(path, time), ticking=False) as store:
        store.storage.relax()
        exp = store.create(
            "subject line", arms=list(RATES), policy=bl.policies.thompson_beta(burn_in=100, decay=0.3),
            outcome=bl.live.binary(), baseline="Plain", planned_rows=rows, author="Ada", reason="Which sells best?",
        ).start(author="Ada")  # fmt: skip
        rehearse(exp, bandit, rows, time, seed=1, every=rows // 20)
        exp.pause_arm("Question", author="Ada", reason="a complaint")
        exp.set_policy(bl.policies.epsilon_greedy(decay=0.3), author="Grace", reason="simpler to explain")
        exp.tell_many([("stranger", 1), ("other", 0)])
        exp.tell_many([("unit-0", 0, "", None, True), ("unit-0", 1, "", None, True)])
        exp.tick()
        store.create(
            "draft", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.events("7d"), author="Grace"
        )


@dataclass
class Site:
    """A served store with its pages, and a browser that is logged in."""

    served: Served
    secret: str
    forms: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.served.url

    @property
    def store(self) -> bl.live.Store:
        return self.served.store

    def login(self, *scopes: str, **options: Any) -> str:
        """Return what another browser keeps."""
        made = make_token(
            self.store.storage, "Bob", scopes or ("read", "admin"), author="test", kind="browser", **options
        )
        return made[0]

    def get(self, path: str, secret: str | None = None, **query: str) -> Reply:
        cookie = {"cookie": f"belated_browser={secret or self.secret}"}
        return self.served.get(f"{path}?{urlencode(query)}" if query else path, token=None, **cookie)

    def post(self, path: str, form: dict[str, str], secret: str | None = None, key: str | None = None) -> Reply:
        """Send a form, with the key of the login unless another one is given."""
        secret = secret or self.secret
        if key is None:
            found = re.search(rb'name="form" value="(\w+)"', self.get("/", secret).body)
            key = found[1].decode() if found else ""
        head = {"cookie": f"belated_browser={secret}", "content_type": "application/x-www-form-urlencoded"}
        return self.served.send("POST", path, urlencode({**form, "form": key}).encode(), token=None, **head)


@contextmanager
def opened(path: Any) -> Iterator[Site]:
    with bl.live.open(path) as store, serving(store, routes=routes()) as served:
        secret, _ = make_token(store.storage, "Ada", ["read", "admin"], author="Ada", kind="browser")
        yield Site(served, secret)


@pytest.fixture
def store(tmp_path):
    """An empty store without pages."""
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as found:
        found.storage.relax()
        yield found


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "shop.belated"
    fill(path)
    copy = path.with_name("copy.belated")
    shutil.copy(path, copy)
    with bl.live.open(copy, ticking=False) as store:  # compiles what pages need before a browser waits for one
        store.experiment("subject line").answer()
    return path


@pytest.fixture(scope="module")
def site(filled):
    """A store that tests only look at."""
    with opened(filled) as found:
        yield found


@pytest.fixture
def own_site(filled, tmp_path):
    """A copy of that store, which a test may change."""
    with bl.live.open(filled, ticking=False) as store:
        store.backup(tmp_path / "own.belated")
    with opened(tmp_path / "own.belated") as found:
        yield found


@dataclass
class Visit:
    """A page of a browser that is logged in, and everything that went wrong on it."""

    page: Any
    url: str
    trouble: list[str] = field(default_factory=list)
    #: Codes that a test asks for on purpose; the browser logs them. A refused form is 422.
    expected: set[int] = field(default_factory=lambda: {422})

    def __post_init__(self) -> None:
        self.page.on("console", lambda said: self._note(said.text) if said.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self._note(str(error)))
        self.page.on("requestfailed", lambda request: None if _left(request) else self._note(request.url))
        self.page.on("dialog", lambda dialog: self._note(dialog.message))

    def _note(self, words: str) -> None:
        if not any(f"responded with a status of {code} " in words for code in self.expected):
            self.trouble.append(words)

    def go(self, path: str, **query: str) -> Any:
        return self.page.goto(f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}")


def _left(request: Any) -> bool:
    """Whether a request ended because the browser went to another page."""
    return request.failure == "net::ERR_ABORTED"


@contextmanager
def visiting(chromium: Any, site: Site, **options: Any) -> Iterator[Visit]:
    context = chromium.new_context(**options)
    context.set_default_timeout(WAIT)
    try:
        context.add_cookies([{"name": "belated_browser", "value": site.secret, "url": site.url}])
        yield Visit(context.new_page(), site.url)
    finally:
        context.close()


@pytest.fixture
def visit(chromium, site):
    with visiting(chromium, site) as found:
        yield found
        assert found.trouble == []


@pytest.fixture
def own_visit(chromium, own_site):
    with visiting(chromium, own_site) as found:
        yield found
        assert found.trouble == []


@contextmanager
def loading(store: bl.live.Store, name: str = "subject line") -> Iterator[threading.Thread]:
    """Have units come to an experiment meanwhile."""
    exp, over = store.experiment(name), threading.Event()
    rng = np.random.default_rng(0)

    def work() -> None:
        batch = 0
        while not over.wait(0.05):
            units = [f"load {batch} {i}" for i in range(20)]
            batch += 1
            exp.tell_many([(each.unit, float(rng.random() < 0.2)) for each in exp.ask_many(units)])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        over.set()
        thread.join()
