from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import belated as bl


def test_tokens_by_commands(call, refused, shop):
    made = call(
        "live", "token", "create", shop, "checkout", "--scopes", "ask, tell", "--experiment", "subject line",
        "--expires", "never",
    )  # fmt: skip
    assert (made.exit_code, len(made.stdout.splitlines())) == (0, 1)
    number = re.fullmatch(r"Token (\d+) does not expire; it is shown only now\.\n", made.stderr)[1]
    listed = call("live", "token", "list", shop, "--format", "json").stdout
    (row,) = json.loads(listed)["tokens"]
    assert (row["label"], row["scopes"], row["experiment"]) == ("checkout", ["ask", "tell"], "subject line")
    assert made.stdout.strip() not in listed
    assert call("live", "token", "revoke", shop, number).stdout == "revoked\n"
    assert call("live", "token", "revoke", shop, number).stdout == "it had ended before\n"
    assert refused("live", "token", "revoke", shop, 5)
    link = call("live", "token", "link", shop, "--address", "https://x.example/").stdout
    assert link.startswith("https://x.example/login?code=belated_")
    assert refused("live", "token", "create", shop, "x", "--scopes", "write").startswith("Error: --scopes")
    with bl.live.open(shop, ticking=False):
        pass


def test_a_link_is_for_an_address(call, refused, shop):
    for address in ("evil", "ftp://example.org", "https://", "https://a b", "https://x/?y", "javascript:alert(1)"):
        said = refused("live", "token", "link", shop, "--address", address)
        assert said == "Error: --address must be an address alone, such as https://experiments.example.org."
    link = call("live", "token", "link", shop, "--address", "https://example.org/shop/").stdout
    assert link.startswith("https://example.org/shop/login?code=belated_")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "There is no file"),
        (("--rate", 0), "--rate is 0; it must be more than 0"),
        (("--host", "192.168.0.1", "--allow-host", "x.example"), "is reached by others; say so with --public"),
    ],
)
def test_what_is_wrong_is_said_before_anything_listens(refused, tmp_path, options, words):
    said = refused("live", "serve", tmp_path / "none.belated", *options)
    assert said.startswith("Error: ")
    assert words in said


def test_without_its_packages_it_says_what_to_install(tmp_path):
    code = (
        "import sys\nsys.modules['starlette'] = None\nsys.argv = ['belated', 'live', 'serve', 'x.belated']\n"
        "from belated.cli.app import run\nrun()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 2
    assert done.stderr == ("Error: Serving live experiments needs more packages; run `pip install 'belated[live]'`.\n")
