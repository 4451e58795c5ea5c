"""The pages in a real browser: every page and form, light and dark, wide and narrow, by mouse and by keyboard."""

from __future__ import annotations

import time
from itertools import product

import pytest
from browsers import BACKGROUND, HIDDEN, OUTSIDE, SMALLEST
from live.dashboard.conftest import loading, visiting

import belated as bl
from belated.live.tokens import make_token

EXPERIMENT = {"experiment": "subject line"}
PAGES = {
    "experiments": ("/", {}),
    "new": ("/new", {}),
    **{name: (f"/{name}", EXPERIMENT) for name in ("answer", "over-time", "arrivals", "soundness", "changes")},
    "tokens": ("/tokens", {}),
    "machine": ("/machine", {}),
}

HOSTILE = (
    "<script>window.pwned=1</script>",
    "'; drop table experiment; --",
    "\"><img src=x onerror='window.pwned=1'>",
    "מבחן \u202eexperiment",
    "👩‍👩‍👧 emoji & co",
    "../../%2e%2e/x?y#z",
    "long " + "x" * 195,
)

#: What of a page cannot be reached by name: fields without labels, buttons and links without words.
_NAMELESS = """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a')]
    .filter(e => e.labels ? !e.labels.length && !e.textContent.trim() : !e.textContent.trim())
    .map(e => e.outerHTML)"""

#: Elements of the same id, and references to ids that are not there.
_IDS = """() => {
    const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
    const asked = [...document.querySelectorAll('[aria-describedby], [aria-labelledby], label[for]')].flatMap(e =>
        [e.getAttribute('aria-describedby'), e.getAttribute('aria-labelledby'), e.getAttribute('for')]
            .filter(Boolean).join(' ').split(/ +/));
    return [...ids.filter((id, i) => ids.indexOf(id) !== i), ...asked.filter(id => !ids.includes(id))];
}"""

#: The texts of a page whose contrast with what is behind them is below that of WCAG AA.
_FAINT = """() => {
    const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
    const light = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const lum = ([r, g, b]) => [r, g, b].map(v => light(v / 255))
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const behind = e => { for (; e; e = e.parentElement) {
        const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > .9) return c; } return [255, 255, 255, 1]; };
    const faint = [];
    for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || !e.getBoundingClientRect().width || e.closest('.unseen, title, desc, option')) continue;
        const style = getComputedStyle(e), ink = parse(e.closest('svg') ? style.fill : style.color);
        const [a, b] = [lum(ink), lum(behind(e))].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
        const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        if (ratio < (large ? 3 : 4.5)) faint.push([e.textContent.trim().slice(0, 40), ratio]);
    }
    return faint;
}"""


#: Words of cells that go on in the next line; what people named may.
_BROKEN = """() => {
    const lines = (node, from, to) => { const r = document.createRange(); r.setStart(node, from); r.setEnd(node, to);
        return new Set([...r.getClientRects()].map(box => Math.round(box.top))).size; };
    const broken = [];
    for (const cell of document.querySelectorAll('.cards tbody td')) {
        const head = getComputedStyle(cell, '::before');
        if (head.content !== 'none' && head.overflowWrap !== 'normal') broken.push(cell.dataset.head);
        for (const node of cell.childNodes)
            for (const word of node.nodeType === 3 ? node.data.matchAll(/[^ \\n]+/g) : [])
                if (lines(node, word.index, word.index + word[0].length) > 1) broken.push(word[0]);
    }
    return broken;
}"""


#: How wide what a cell says is.
_WIDTH = """cell => {
    const words = document.createRange(); words.selectNodeContents(cell); return words.getBoundingClientRect().width;
}"""


def follow(page, what):
    """Click what leads to another page, and wait for that page: a click returns as soon as it begins to come."""
    with page.expect_navigation():
        (page.locator(what) if isinstance(what, str) else what).click()


def look_at(page, scheme, width):
    """Check what must hold for every page."""
    page.wait_for_load_state()  # with its styles
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (page.evaluate(BACKGROUND) == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.evaluate(OUTSIDE, width) == []
    assert page.evaluate(HIDDEN, width) == []
    assert page.locator(".chart").count() == 0 or page.evaluate(SMALLEST) >= 12
    assert page.locator("h1").count() == page.locator("main").count() == 1
    assert page.evaluate(_NAMELESS) == []
    assert page.evaluate(_IDS) == []
    assert page.evaluate(_FAINT) == []
    assert page.evaluate("typeof window.pwned") == "undefined"


def settled(visit, path, **query):
    """Open a page, and wait until its answer is there."""
    reply = visit.go(path, **query)
    visit.page.wait_for_selector("[data-soon]", state="detached")
    return reply


def look_at_every_form(page):
    """Look at a page light and dark, on a phone and on a desk."""
    for scheme, width in product(("light", "dark"), (360, 1200)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        look_at(page, scheme, width)


def test_every_page_in_every_form(visit):
    for path, query in PAGES.values():
        assert settled(visit, path, **query).status == 200
        look_at_every_form(visit.page)


def test_a_final_arm_with_a_long_name_stays_on_the_page(own_site, own_visit):
    exp = own_site.store.experiment("subject line")
    arm = "Free delivery on orders above forty euros, this weekend only"
    exp.add_arm(arm)
    exp.stop(arm, reason="enough")
    settled(own_visit, "/answer", **EXPERIMENT)
    look_at_every_form(own_visit.page)
    assert own_visit.page.get_by_text(f"later units get {arm}").is_visible()


def test_names_of_arms_stay_whole_and_on_the_page(own_site, own_visit):
    """In cells behind the first: a long one goes on in the next line, and one of two directions is not torn apart."""
    named = "מבחן one"
    exp = own_site.store.create(
        "late", arms=["w" * 200, named], policy=bl.policies.uniform(), outcome=bl.live.events("1s", "count")
    ).start()
    exp.ask_many(f"unit {i}" for i in range(200))
    exp.tell_many((f"unit {i}", 1) for i in range(200))
    time.sleep(1)
    settled(own_visit, "/arrivals", experiment="late")
    look_at_every_form(own_visit.page)
    own_visit.page.set_viewport_size({"width": 360, "height": 800})
    cell = own_visit.page.locator("td[data-head=arm]", has_text=named).first
    assert 0 < cell.evaluate(_WIDTH) < 100


def test_words_of_cards_are_whole_on_a_phone(own_site, own_visit):
    """The heads of cells are not broken within a word, and neither are numbers with their units."""
    own_site.store.experiment("subject line")
    make_token(own_site.store.storage, "checkout", ["ask", "tell", "read", "admin"], author="Ada")
    page = own_visit.page
    page.set_viewport_size({"width": 360, "height": 800})
    for path in ("/", "/tokens", "/machine"):
        own_visit.go(path)
        assert page.evaluate(_BROKEN) == []


def test_pages_are_live_while_a_load_runs(own_site, own_visit):
    page = own_visit.page
    with loading(own_site.store):
        settled(own_visit, "/answer", **EXPERIMENT)
        page.evaluate("document.body.dataset.same = 'yes'")
        before = page.locator(".facts").inner_text()
        page.locator("[role=region]").first.focus()
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        page.evaluate("window.scrollTo(0, 300)")
        page.wait_for_function("before => document.querySelector('.facts').innerText !== before", arg=before)
        as_of = page.locator(".made").inner_text()
        page.wait_for_function("was => document.querySelector('.made').innerText !== was", arg=as_of)
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == focused
        assert page.evaluate("document.body.dataset.same") == "yes"  # it was not loaded again
        assert page.evaluate("window.scrollY") == 300
        for name, (path, query) in PAGES.items():
            assert settled(own_visit, path, **query).status == 200, name
            look_at(page, "light", 1280)


def test_a_page_that_loses_its_login_says_so(own_site, own_visit):
    page = own_visit.page
    own_visit.expected.add(401)
    settled(own_visit, "/machine")
    page.context.clear_cookies()
    page.wait_for_function("() => document.getElementById('live').textContent.includes('logged out')")


def test_pages_work_without_script(chromium, site):
    with visiting(chromium, site, java_script_enabled=False) as visit:
        visit.go("/answer", **EXPERIMENT)
        for _ in range(60):
            if not visit.page.locator("[data-soon]").count():
                break
            visit.page.reload()
        assert visit.page.locator(".chart").count() >= 3
        follow(visit.page, "text=Over time")
        assert visit.page.locator(".chart").count() >= 4


# ---------------------------------------------------------------- forms


def test_an_experiment_is_created_and_what_is_wrong_is_said_beside_its_field(own_site, own_visit):
    page = own_visit.page
    own_visit.go("/")
    follow(page, "text=Create an experiment")
    page.fill("[name=name]", "button <b>colour</b>")
    page.fill("[name=arms]", "Red\nBlue\nRed")
    page.fill("[name=baseline]", "Green")
    page.fill("[name=level]", "95")
    page.fill("[name=planned]", "many")
    page.select_option("[name=outcome]", "events")
    page.fill("[name=window]", "soon")
    follow(page, "button:text-is('Create')")
    wrong = {e.get_attribute("id"): e.inner_text() for e in page.locator(".error").all()}
    assert set(wrong) == {"arms-wrong", "level-wrong", "planned-wrong", "window-wrong"}
    assert "different arms" in wrong["arms-wrong"]
    assert all(words.endswith(".") for words in wrong.values())
    assert page.input_value("[name=name]") == "button <b>colour</b>"
    assert page.input_value("[name=planned]") == "many"
    assert page.get_attribute("[name=level]", "aria-invalid") == "true"
    look_at(page, "light", 1280)
    page.fill("[name=arms]", "Red\nBlue\n")
    page.fill("[name=level]", "0.9")
    page.fill("[name=planned]", "5,000")
    page.fill("[name=window]", "3d")
    follow(page, "button:text-is('Create')")
    assert [e.get_attribute("id") for e in page.locator(".error").all()] == ["baseline-wrong"]
    page.fill("[name=baseline]", "Blue")
    page.fill("[name=reason]", "an idea")
    follow(page, "button:text-is('Create')")
    assert "was created" in page.inner_text(".done")
    exp = own_site.store.experiment("button <b>colour</b>")
    setup = exp.setup
    assert (setup.level, setup.planned, setup.baseline, setup.outcome.window) == (0.9, 5000, "Blue", "3 days")
    assert exp.status().state == "running"
    assert [(each.author, each.reason) for each in exp.changes()] == [("Ada", "an idea")] * 2
    own_visit.go("/new")
    page.fill("[name=name]", "button <b>colour</b>")
    page.fill("[name=arms]", "A")
    follow(page, "button:text-is('Create')")
    assert "already an experiment" in page.inner_text("#name-wrong")


def test_fields_that_do_not_matter_are_hidden(visit):
    page = visit.page
    visit.go("/new")
    assert not page.is_visible("[name=window]")
    page.select_option("[name=outcome]", "events")
    assert page.is_visible("[name=window]")
    assert not page.is_visible("[name=low]")
    page.select_option("[name=policy]", "fixed")
    assert page.is_visible("[name=shares]")
    assert not page.is_visible("[name=burn_in]")


def confirm(page, what, **fields):
    """Fill in the form of a change, read what it will do, and do it."""
    form = page.locator("details", has=page.locator(f"input[value={what}]"))
    form.locator("summary").click()
    for name, value in fields.items():
        place = form.locator(f"[name={name}]")
        if place.evaluate("e => e.tagName") == "SELECT":
            place.select_option(value)
        else:
            place.fill(value)
    follow(page, form.locator("button"))
    assert page.locator("h2:text-is('What it will do')").count() == 1
    look_at(page, "light", 1280)
    said = page.inner_text("main")
    follow(page, "form[action^='/changes'] button")
    assert page.locator(".done").count() == 1
    return said


def test_every_change_by_its_form(own_site, own_visit):
    page, exp = own_visit.page, own_site.store.experiment("subject line")
    arms = lambda: {arm: (state, p) for arm, state, p in exp.status().arms}  # noqa: E731
    own_visit.go("/changes", **EXPERIMENT)
    said = confirm(page, "pause_arm", arm="Emoji", reason="it annoys people")
    assert "New units no longer get “\u2068Emoji\u2069”" in said
    assert arms()["Emoji"] == ("paused", 0.0)
    said = confirm(page, "resume_arm", arm="Question", reason="the complaint is settled")
    assert arms()["Question"][0] == "offered"
    assert f"{arms()['Question'][1]:.1%}" in said  # the confirmation said its probability
    confirm(page, "drop_arm", arm="Emoji", reason="for good")
    confirm(page, "add_arm", arm="Joke", reason="an idea")
    assert (arms()["Emoji"][0], arms()["Joke"][0]) == ("dropped", "offered")
    confirm(page, "set_policy", policy="uniform", reason="the last week")
    assert {p for state, p in arms().values() if state == "offered"} == {0.25}
    confirm(page, "stop", final="Your name", reason="the interval excludes 0")
    assert exp.ask("somebody new")[1:2] == ("Your name",)
    confirm(page, "close", reason="it is over")
    assert page.locator("details").count() == 0
    changes = list(exp.changes())[-7:]
    assert [each.what for each in changes] == [
        "pause arm", "resume arm", "drop arm", "add arm", "set policy", "stop", "close",
    ]  # fmt: skip
    assert {each.author for each in changes} == {"Ada"}
    assert changes[-1].reason == "it is over"
    assert "it is over" in page.inner_text(".audit")
    own_visit.go("/changes", experiment="draft")
    confirm(page, "start", reason="ready")
    assert own_site.store.experiment("draft").status().state == "running"


def test_a_change_needs_a_reason_and_what_was_typed_stays(own_site, own_visit):
    page = own_visit.page
    own_visit.go("/changes", **EXPERIMENT)
    page.click("summary:has-text('Add an arm')")
    page.fill("#add_arm-arm", "Emoji")
    follow(page, "details[open] button")
    assert "choose another one" in page.inner_text("#add_arm-arm-wrong")
    assert "Fill in" in page.inner_text("#add_arm-reason-wrong")
    assert page.input_value("#add_arm-arm") == "Emoji"
    look_at(page, "light", 1280)


def test_who_confirms_what_has_changed_meanwhile_is_asked_again(own_site, own_visit):
    page, exp = own_visit.page, own_site.store.experiment("subject line")
    own_visit.go("/changes", **EXPERIMENT)
    page.click("summary:has-text('Pause an arm')")
    page.select_option("#pause_arm-arm", "Emoji")
    page.fill("#pause_arm-reason", "why not")
    follow(page, "details[open] button")
    exp.add_arm("Joke", author="Grace")
    follow(page, "form[action^='/changes'] button")
    assert "changed meanwhile" in page.inner_text("[role=alert]")
    assert "Joke" in page.inner_text("table")
    assert {arm: state for arm, state, _ in exp.status().arms}["Emoji"] == "offered"
    exp.drop_arm("Emoji", author="Grace")
    exp.stop(author="Grace")
    follow(page, "form[action^='/changes'] button")
    assert "This cannot be done while the experiment is stopped" in page.inner_text("main")


def test_tokens_are_made_shown_once_and_revoked(own_site, own_visit):
    page = own_visit.page
    own_visit.go("/tokens")
    follow(page, "text=Make the token")
    assert "Fill in" in page.inner_text("#label-wrong")
    page.fill("[name=label]", "check<i>out")
    page.fill("[name=expires]", "soon")
    follow(page, "text=Make the token")
    assert page.locator("#expires-wrong").count() == 1
    page.fill("[name=expires]", "30d")
    page.select_option("[name=experiment]", "subject line")
    follow(page, "text=Make the token")
    look_at(page, "light", 1280)
    secret = page.input_value("#secret")

    def ask():
        return own_site.served.post("/v1/experiments/subject%20line/ask", {"unit": "new"}, token=secret).status

    assert ask() == 200
    own_visit.go("/tokens")
    assert secret not in page.content()
    row = page.locator("tr", has_text="check<i>out")
    follow(page, row.locator("button"))
    assert "Programs that use it are refused" in page.inner_text("main")
    follow(page, "text=Revoke the token")
    assert "was revoked" in page.inner_text(".done")
    assert ask() == 401


def test_everything_that_is_wrong_with_a_token_is_said_at_once(own_site, own_visit):
    page = own_visit.page
    own_visit.go("/tokens")
    page.uncheck("[name=scope-ask]")
    page.uncheck("[name=scope-tell]")
    page.fill("[name=expires]", "soon")
    follow(page, "text=Make the token")
    assert [e.get_attribute("id") for e in page.locator(".error").all()] == [
        "label-wrong", "scope-ask-wrong", "expires-wrong",
    ]  # fmt: skip
    assert "Write a duration, such as 7d, 12h or 30min." in page.inner_text("#expires-wrong")
    look_at(page, "light", 1280)


def test_everything_by_keyboard(own_site, own_visit):
    page = own_visit.page
    own_visit.go("/new")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "name"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.type("typed")
    page.keyboard.press("Tab")
    page.keyboard.type("A\nB")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "submit":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/answer?**")
    assert "typed" in list(own_site.store.experiments())
    own_visit.go("/changes", experiment="typed")
    for _ in range(30):
        page.keyboard.press("Tab")
        if (
            "Close" in page.evaluate("document.activeElement.textContent")
            and page.evaluate("document.activeElement.tagName") == "SUMMARY"
        ):
            break
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("the end")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=What it will do")
    page.keyboard.press("Tab")
    for _ in range(20):
        if page.evaluate("document.activeElement.textContent") == "Close":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".done")
    assert own_site.store.experiment("typed").status().state == "closed"


@pytest.mark.parametrize("name", [" ".join(reversed(HOSTILE[:-1])), HOSTILE[-1]], ids=["all", "long"])
def test_hostile_names_are_text(own_site, own_visit, name):
    page = own_visit.page
    exp = own_site.store.create(
        name, arms=list(HOSTILE), policy=bl.policies.uniform(), outcome=bl.live.binary(),
        baseline=HOSTILE[0], author=name, reason=name,
    ).start(author=name)  # fmt: skip
    exp.tell_many([(each.unit, i % 3 == 0) for i, each in enumerate(exp.ask_many([f"u{i}" for i in range(300)]))])
    exp.tick()
    exp.pause_arm(HOSTILE[1], author=name, reason=name)
    own_site.store.experiment(name)
    page.set_viewport_size({"width": 360, "height": 800})
    own_visit.go("/")
    look_at(page, "light", 360)
    for path in ("/answer", "/over-time", "/arrivals", "/soundness", "/changes"):
        assert settled(own_visit, path, experiment=name).status == 200
        look_at(page, "light", 360)
        assert page.locator("script:not([src])").count() == page.locator("main img").count() == 0
    for path in ("/tokens", "/machine"):
        own_visit.go(path)
        look_at(page, "light", 360)


def test_a_browser_logs_in_by_a_link_once_and_out_again(chromium, own_site):
    secret, _ = make_token(own_site.store.storage, "Eve", ["read", "admin"], author="Eve", kind="link")
    with visiting(chromium, own_site) as visit:
        page = visit.page
        page.context.clear_cookies()
        visit.expected.add(401)
        assert visit.go("/").status == 401
        visit.go("/login", code=secret)
        look_at(page, "light", 1280)
        follow(page, "main button")
        assert page.inner_text("h1") == "Experiments"
        assert "Eve" in page.inner_text(".who")
        follow(page, ".leave button")
        assert page.inner_text("h1") == "Logged out"
        assert visit.go("/").status == 401
        visit.go("/login", code=secret)
        follow(page, "main button")
        assert "was used before" in page.inner_text("main")
        assert visit.trouble == []
