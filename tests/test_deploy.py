"""The files of deploy are what systemd, container engines and the command line accept."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import invoke
from documentation import ROOT, Page

import belated as bl

DEPLOY = ROOT / "deploy"
UNITS = ("belated.service", "belated-backup.service", "belated-backup.timer")
INSTALLED = "/opt/belated/bin/belated"


def accepts(words: list[str]) -> None:
    """Assert that the command line knows a command and its options: with one more option, only that is wrong."""
    done = invoke([*words, "--no-such-option"])
    said = re.sub(r"\x1b\[[0-9;]*m|[\s│]+", " ", done.output)
    assert "No such option: --no-such-option" in said, (words, said)


def commands(text: str) -> list[list[str]]:
    """Find the commands of belated in lines of a shell; variables and what comes before do not matter."""
    joined = re.sub(r"\$+\([^)]*\)", "now", text.replace("\\\n", " "))
    matches = re.findall(r"(?:^|[\s/])belated (live [^\n|>;&']*)", joined)
    return [shlex.split(each) for each in matches]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path):
    for name in UNITS:
        unit = (DEPLOY / name).read_text().replace(INSTALLED, sys.executable)
        (tmp_path / name).write_text(unit)
    check = ["systemd-analyze", "verify", "--man=no", *(tmp_path / name for name in UNITS)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if any(name in line for name in UNITS)]
    assert (done.returncode, complaints) == (0, [])


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith("service")])
def test_the_units_run_commands_that_exist(name):
    lines = [line for line in (DEPLOY / name).read_text().splitlines() if line.startswith("ExecStart=")]
    calls = [words for line in lines for words in commands(line)]
    assert len(calls) == 1
    accepts(calls[0])


def test_the_backup_of_the_unit_makes_a_backup(tmp_path):
    """Its shell command is run as systemd would run it, with its own names for the places."""
    (line,) = re.findall(r"^ExecStart=(.*)$", (DEPLOY / "belated-backup.service").read_text(), re.MULTILINE)
    for before, after in (("%%", "%"), ("$$", "$"), ("%S", str(tmp_path)), (INSTALLED, f"{sys.executable} -m belated")):
        line = line.replace(before, after) if before != "%%" else line.replace("%%", "\0")
    (tmp_path / "belated").mkdir()
    (tmp_path / "belated-backups").mkdir()
    with bl.live.open(tmp_path / "belated" / "shop.belated", ticking=False) as store:
        store.create("button", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary())
    subprocess.run(shlex.split(line.replace("\0", "%")), check=True, timeout=120)
    (copy,) = (tmp_path / "belated-backups").iterdir()
    assert re.fullmatch(r"shop-\d{8}T\d{6}Z\.belated", copy.name)
    with bl.live.open(copy, ticking=False) as store:
        assert list(store.experiments()) == ["button"]


def test_the_dockerfile_has_nothing_to_complain_about():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, "--no-color", DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_dockerfile_copies_what_there_is_and_runs_as_nobody_special():
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = [word for line in lines if re.match(r"COPY (?!--from)", line) for word in line.split()[1:-1]]
    assert copied
    assert all((ROOT / word).exists() for word in copied)
    kept = (ROOT / ".dockerignore").read_text().split()
    assert {f"!{word}" for word in copied} <= set(kept)
    (user,) = [line.split()[1] for line in lines if line.startswith("USER")]
    assert int(user) > 0
    extras = set(re.findall(r"\.\[([\w,]+)\]", "\n".join(lines))[0].split(","))
    assert extras <= set(_extras())


def test_compose_runs_commands_that_exist():
    table = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    served = table["services"]["belated"]
    accepts(served["command"])
    assert (DEPLOY / served["build"]["context"] / served["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert served["depends_on"]["db"]["condition"] == "service_healthy"
    assert all(port.startswith("127.0.0.1:") for port in served["ports"])  # https is the proxy's
    used = {volume.partition(":")[0] for each in table["services"].values() for volume in each["volumes"]}
    assert used == set(table["volumes"])
    assert "PASSWORD" not in " ".join(served["command"])


def test_the_page_has_commands_that_exist():
    page = Page(ROOT / "docs" / "how-to" / "deploy.md")
    shells = [block.text for block in page.blocks if block.language in ("bash", "ini")]
    calls = [words for text in shells for words in commands(text)]
    assert len(calls) > 12
    for words in calls:
        accepts(words)


def _extras() -> list[str]:
    import tomllib

    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
