from __future__ import annotations

import csv
import json

import pytest

import belated as bl
from belated.base.documents import SCHEMAS
from belated.cli.live import read_outcome, read_policy
from belated.live.dashboard import creating
from belated.live.schema import MIGRATIONS


def test_an_experiment_from_creation_to_decision(call, live, shop, tmp_path):
    arm = live("ask", "customer-17")
    assert arm in ("Plain\n", "Emoji\n")
    again = json.loads(live("ask", "customer-17", "--format", "json"))
    assert (again["arm"], again["repeated"], again["logged"]) == (arm.strip(), True, True)
    assert again["probabilities"] == {"Plain": 0.5, "Emoji": 0.5}
    assert live("tell", "customer-17", 1) == "new\n"
    assert live("tell", "customer-17", 1) == "repeated\n"
    assert live("tell", "customer-17", 0, "--correct") == "corrected\n"
    units = [f"c{i}" for i in range(60)]
    assert len(live("ask", *units).split()) == 60
    outcomes = tmp_path / "outcomes.csv"
    outcomes.write_text("unit,value\n" + "".join(f"{unit},{i % 3 == 0:d}\n" for i, unit in enumerate(units)))
    assert live("tell", "--from", outcomes) == "60 new\n"
    assert live("tell", "--from", outcomes) == "60 repeated\n"
    text = live("answer", "--report", tmp_path / "report.html")
    assert "61 asked, 61 told, 0 out, 1 corrected" in text
    assert "Emoji - Plain" in text
    assert "<html" in (tmp_path / "report.html").read_text()
    answer = json.loads(live("answer", "--format", "json"))
    assert answer["counts"]["asked"] == 61
    assert answer["contrasts"][0]["contrast"] == "Emoji - Plain"
    live("log", "-o", tmp_path / "log.csv")
    for other in (bl.read(tmp_path / "log.csv"), bl.read(shop)):
        assert bl.estimate(other).contrast("Emoji", "Plain").estimate == pytest.approx(
            answer["contrasts"][0]["estimate"]
        )
    assert "customer" not in (tmp_path / "log.csv").read_text()
    live("stop", "--final", "Emoji", "--reason", "enough")
    assert live("ask", "somebody else") == "Emoji\n"
    live("close")
    assert "0 decisions" not in call("live", "verify", shop).stdout
    assert [row["what"] for row in csv.DictReader(live("changes", "--format", "csv").splitlines())] == [
        "create", "start", "stop", "close",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_every_result_has_every_format(call, live, shop, form):
    live("ask", "c1", "c2", "c3", "c4")
    for moment in ("before", "after"):
        for command in ("answer", "status", "changes"):
            assert live(command, "--format", form).strip(), (moment, command)
        assert call("live", "status", shop, "--format", form).exit_code == 0
        assert call("live", "verify", shop, "--format", form).stdout.strip()
        for unit, value in (("c1", 0), ("c2", 1), ("c3", 0), ("c4", 1)):
            live("tell", unit, value)
    if form == "json":
        status = json.loads(live("status", "--format", "json"))
        assert (status["state"], status["asked"], status["told"], status["problem"]) == ("running", 4, 4, None)
        assert status["arms"][0] == {"arm": "Plain", "state": "offered", "probability": 0.5}
        verification = json.loads(call("live", "verify", shop, "--format", "json").stdout)
        assert (verification["clean"], verification["findings"]) == (True, [])
        assert (verification["decisions"], verification["outcomes"]) == (4, 4)
    if form == "csv":
        (row,) = csv.DictReader(live("answer", "--format", "csv").splitlines())
        assert row["contrast"] == "Emoji - Plain"


def test_findings_are_json_too(call, live, shop):
    live("ask", "c1")
    with bl.live.open(shop, ticking=False) as store, store.storage.writing() as session:
        session.run("update decision set arm = 1 - arm")
    result = call("live", "verify", shop, "--format", "json")
    assert result.exit_code == 2
    verification = json.loads(result.stdout)
    assert (verification["clean"], verification["versions"]) == (False, 1)
    assert verification["findings"] == ["'subject line': 1 decision that its unit and the salt do not give"]


@pytest.mark.parametrize(
    "words",
    [
        ("arm add", "Question"),
        ("arm pause", "Plain"),
        ("arm drop", "Plain"),
        ("segment add", "ES"),
        ("policy set", "--policy", "uniform"),
        ("stop",),
        ("close",),
    ],
)
def test_changes_print_the_status_in_every_format(call, tmp_path, words):
    place = tmp_path / "other.belated"
    created = ("--arms", "Plain,Emoji", "--segments", "DE", "--draft", "--format", "json")
    assert json.loads(call("live", "create", place, "x", *created).stdout)["state"] == "draft"
    assert json.loads(call("live", "start", place, "x", "--format", "json").stdout)["state"] == "running"
    command, *rest = words
    assert json.loads(call("live", *command.split(), place, "x", *rest, "--format", "json").stdout)["asked"] == 0


def test_arms_and_the_policy_change_while_it_runs(live):
    assert "Question" in live("arm add", "Question", "--reason", "an idea")
    assert "paused" in live("arm pause", "Plain")
    assert "paused" not in live("arm resume", "Plain")
    assert "dropped" in live("arm drop", "Emoji")
    text = live("policy set", "--policy", "fixed:Plain=0.25,Question=0.75")
    assert "25.0%" in text
    assert "75.0%" in text


def test_a_store_is_kept_and_forgets(call, live, shop, tmp_path):
    live("ask", "a", "b")
    assert call("live", "backup", shop, tmp_path / "copy.belated").exit_code == 0
    assert live("erase", "a") == "erased\n"
    assert live("erase", "nobody") == "there was nothing to erase\n"
    done = call("live", "restore", tmp_path / "copy.belated", shop, "--replace")
    assert done.stdout == "1 unit erased again\n"
    assert call("live", "migrate", shop).stdout == f"schema {len(MIGRATIONS)}\n"
    assert "2 decisions, 0 outcomes and 1 version checked: clean" in call("live", "verify", shop).stdout
    assert "1 experiment" in call("live", "status", shop).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ask", "SHOP", "subject", "x"], "There is no experiment 'subject' in the store. It has 'subject line'."),
        (["ask", "NOWHERE", "x", "y"], "make an experiment first with `belated live create`"),
        (["tell", "SHOP", "subject line", "x", "2"], "a binary outcome must be 0 or 1"),
        (["tell", "SHOP", "subject line"], "Give a UNIT and its value, or a file with --from"),
        (["arm", "drop", "SHOP", "subject line", "X"], "ARM is 'X'; it must be one of 'Plain', 'Emoji'"),
        (["create", "SHOP", "x", "--arms", "A,A"], "--arms must be 1 to 1000 different names"),
        (["create", "SHOP", "x", "--arms", "A,B", "--outcome", "bool"], "--outcome is 'bool'; it must be binary"),
        (
            ["create", "SHOP", "x", "--arms", "A,B", "--policy", "greedy"],
            "--policy is 'greedy'; it must be one of 'thompson'",
        ),
        (["create", "SHOP", "x", "--arms", "A,B", "--policy", "thomson"], "Did you mean 'thompson'?"),
        (["create", "SHOP", "x", "--arms", "A,B", "--baseline", "C"], "--baseline is 'C'; it must be one of the arms"),
        (["policy", "set", "SHOP", "subject line", "--policy", "thompson:c"], "options must be like c=0.5"),
        (["policy", "set", "SHOP", "subject line", "--policy", "own"], "--policy is a Python function"),
        (["create", "SHOP", "x", "--arms", "A,B", "--policy", "own"], "--policy is a Python function"),
        (["create", "SHOP", "x", "--arms", "A,B", "--policy", "thompson:c=x"], "--policy has c='x'; it must be a"),
        (
            ["create", "SHOP", "x", "--arms", "A,B", "--outcome", "bounded:a,1"],
            "--outcome has 'a'; it must be a number",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(refused, shop, tmp_path, arguments, words):
    places = {"SHOP": shop, "NOWHERE": tmp_path / "nowhere.belated"}
    assert words in refused("live", *(places.get(each, each) for each in arguments))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ask", "SHOP", "subject line", ""], "UNITS has 0 characters"),
        (["tell", "SHOP", "subject line", "x", "nan"], "VALUE is nan; it must be a finite number"),
        (["tell", "SHOP", "subject line", "x", "1", "--key", "k"], "--key is only for events"),
        (["stop", "SHOP", "subject line", "--final", "Z"], "--final is 'Z'; it must be one of 'Plain', 'Emoji'"),
        (["restore", "SHOP", "OTHER"], "to replace it, use --replace"),
        (
            ["policy", "set", "SHOP", "subject line", "--policy", "fixed:A=2"],
            "--policy cannot be 'fixed:A=2': `shares`",
        ),
        (["import", "SHOP", "x", "LOG", "--kind", "wide"], "--kind is 'wide'; it must be one of 'auto'"),
        (["import", "SHOP", "x", "LOG", "--unit", "who"], "There is no column 'who' for --unit"),
    ],
)
def test_errors_name_the_options_of_the_command(call, refused, shop, log, tmp_path, arguments, words):
    places = {"SHOP": shop, "OTHER": tmp_path / "other.belated", "LOG": log}
    call("live", "create", places["OTHER"], "x", "--arms", "A,B")
    assert words in refused("live", *(places.get(each, each) for each in arguments))


@pytest.mark.parametrize(
    "options",
    [
        ["--arms", "A,A"],
        ["--arms", "A,B", "--baseline", "C"],
        ["--arms", "A,B", "--level", "2"],
        ["--arms", "A,B", "--kind", "bernstein"],
        ["--arms", "A,B", "--outcome", "real", "--policy", "thompson_beta"],
        ["--arms", "A,B", "--author", ""],
    ],
)
def test_a_creation_that_is_refused_makes_no_file(refused, tmp_path, options):
    refused("live", "create", tmp_path / "shop.belated", "x", *options)
    assert not list(tmp_path.iterdir())


def test_kind_and_target_of_the_sequence_are_chosen_at_the_creation(call, log, tmp_path):
    path = tmp_path / "shop.belated"
    chosen = ["--kind", "asymptotic", "--target", 700, "--every", 9]
    assert call("live", "create", path, "x", "--arms", "A,B", *chosen).exit_code == 0
    done = call("live", "import", path, "y", log, "--outcome", "real", *chosen, "--reason", "it moves here")
    assert done.exit_code == 0, done.output
    with bl.live.open(path, ticking=False) as store:
        for name in "xy":
            setup = store.experiment(name).setup
            assert (setup.kind, setup.target, setup.every) == ("asymptotic", 700, 9)
        changes = store.experiment("y").changes()
        assert [(each.what, each.reason) for each in changes] == [
            ("create", "it moves here"),
            ("import", "it moves here"),
        ]


def test_changes_are_told_in_words(call, live):
    live("arm add", "Question", "--reason", "an idea")
    live("policy set", "--policy", "thompson")
    live("stop", "--final", "Emoji")
    text = live("changes")
    for words in (
        "arms Plain, Emoji; policy uniform",
        "arm Question",
        "policy thompson_beta",
        "final Emoji",
        "an idea",
    ):
        assert words in text
    assert "{" not in text
    assert text.count("20") >= 5  # every time is shown with its date
    first = json.loads(live("changes", "--format", "json"))["changes"][0]
    assert json.loads(first["detail"])["arms"] == ["Plain", "Emoji"]


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("decision", ["ask", "SHOP", "subject line", "a"]),
        ("live", ["answer", "SHOP", "subject line"]),
        ("status", ["status", "SHOP", "subject line"]),
        ("experiments", ["status", "SHOP"]),
        ("changes", ["changes", "SHOP", "subject line"]),
        ("verification", ["verify", "SHOP"]),
        ("tokens", ["token", "list", "SHOP"]),
    ],
)
def test_every_json_is_an_object_that_names_its_schema(call, shop, kind, command):
    call("live", "token", "create", shop, "checkout")
    printed = call("live", *(shop if each == "SHOP" else each for each in command), "--format", "json")
    document = json.loads(printed.stdout)
    assert list(document)[:2] == ["belated", "schema"]
    assert document["schema"] == SCHEMAS[kind]
    assert kind not in ("experiments", "changes", "tokens") or len(document[kind]) > 0


def test_decisions_of_several_units_are_a_line_each(live):
    lines = live("ask", "a", "b", "--format", "json").splitlines()
    assert [json.loads(line)["unit"] for line in lines] == ["a", "b"]


def test_a_store_is_not_replaced_by_what_is_written(refused, shop, live):
    live("ask", "a")
    for words in (["answer", shop, "subject line", "--report", shop], ["demo", shop]):
        refused("live", *words)
    assert live("ask", "a")


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_names_do_not_control_the_terminal(call, tmp_path, form):
    path, name = tmp_path / "shop.belated", "\x1b[2J\nline"
    done = call("live", "create", path, name, "--arms", "A,\x1b[2J", "--reason", "\x1b[2J")
    assert done.exit_code == 0, done.output
    call("live", "ask", path, name, "u")
    call("live", "tell", path, name, "u", 1)
    shown = [done, *(call("live", what, path, name, "--format", form) for what in ("status", "answer", "changes"))]
    shown += [
        call("live", "ask", path, name, "u"),
        call("live", "log", path, name),
        call("live", "ask", path, "x", "u"),
    ]
    assert not any("\x1b" in each.output for each in shown)


def test_policies_and_outcomes_are_read_from_words():
    binary, real = bl.live.binary(), bl.live.real()
    assert read_policy("thompson", binary) == bl.policies.thompson_beta()
    assert read_policy("thompson:c=0.5,burn_in=100", real) == bl.policies.thompson_normal(c=0.5, burn_in=100)
    assert read_policy("fixed:A=0.25,B=0.75", real) == bl.policies.fixed({"A": 0.25, "B": 0.75})
    assert read_outcome("bounded:0, 10") == bl.live.bounded(0, 10)
    assert read_outcome("events:7d,sum") == bl.live.events("7d", "sum")
    assert read_outcome("events:7d") == bl.live.events("7d")


@pytest.mark.parametrize(
    ("words", "fields", "name"),
    [
        ("binary", {"outcome": "binary"}, "thompson_beta"),
        ("bounded:0,1", {"outcome": "bounded", "low": "0", "high": "1"}, "thompson_beta"),
        ("bounded:-1,1", {"outcome": "bounded", "low": "-1", "high": "1"}, "thompson_normal"),
        ("events:7d", {"outcome": "events", "window": "7d", "measure": "indicator"}, "thompson_beta"),
        ("events:7d,sum", {"outcome": "events", "window": "7d", "measure": "sum"}, "thompson_normal"),
        ("real", {"outcome": "real"}, "thompson_normal"),
    ],
)
def test_thompson_is_the_same_policy_on_the_command_line_and_in_the_dashboard(words, fields, name):
    outcome = read_outcome(words)
    form = {"policy": "thompson", "burn_in": "0.1", "decay": "0.5", **fields}
    given = creating.FormValues(form, creating.CREATE_FIELDS)
    assert creating.read_outcome(given) == outcome
    chosen = creating.read_policy(given, ["A", "B"], outcome)
    assert chosen == read_policy("thompson:burn_in=0.1", outcome)
    assert chosen.name == name


def test_an_experiment_by_segment(call, tmp_path):
    path = tmp_path / "shop.belated"

    def run(command, *arguments, code=0):
        done = call("live", *command.split(), path, "mail", *arguments)
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.stderr

    text = run("create", "--arms", "A,B", "--segments", 'DE,"FR, mobile"', "--baseline", "A", "--policy", "uniform")
    assert "FR, mobile" in text
    assert json.loads(run("ask", "u1", "--segment", "DE", "--format", "json"))["segment"] == "DE"
    assert "needs the segment of every unit" in run("ask", "u2", code=2)
    assert "it must be one of 'DE', 'FR, mobile'" in run("ask", "u2", "--segment", "ES", code=2)
    assert "ES" in run("segment add", "ES", "--reason", "a new shop")
    assert run("ask", "u2", "u3", "--segment", "ES").split() in (["A", "A"], ["A", "B"], ["B", "A"], ["B", "B"])
    header, first, *_ = csv.reader(run("log").splitlines())
    assert first[header.index("segment")] == "DE"
    log = tmp_path / "log.csv"
    run("log", "-o", log)
    done = call("live", "import", tmp_path / "new.belated", "again", log, "--segment", "segment", "--policy", "uniform")
    assert done.exit_code == 0, done.output
    assert "ES" in done.stdout
