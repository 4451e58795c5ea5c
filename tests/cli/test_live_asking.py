from __future__ import annotations

import belated as bl
from belated.cli import live_asking


def test_a_file_of_outcomes_that_cannot_be(call, refused, shop, tmp_path):
    path = tmp_path / "outcomes.csv"
    path.write_text("who,what\na,1\n")
    assert "has no columns named unit and value" in refused("live", "tell", shop, "subject line", "--from", path)
    path.write_text("unit,value\na,one\n")
    assert "has in row 1 a value" in refused("live", "tell", shop, "subject line", "--from", path)
    for content, words in {
        b"unit,value\n\xff\xfe,1\n": "is not a CSV file in UTF-8",
        b"\xff\xfeu\x00n\x00": "is not a CSV file in UTF-8",
        b"unit,value\n" + b"x" * 200_000 + b",1\n": "is not a CSV file: field larger than field limit",
        b"": "has no columns named unit and value",
        b"unit,value\na\n": "has in row 1 fewer fields than there are columns",
        b"unit,value\na,1,5\n": "has in row 1 more fields than there are columns; text with a comma must be in quotes",
        b"unit,value\na,1\nb,'1,5'\n": "has in row 2 more fields",
        b'unit,value\na,"1,5"\n': "has in row 1 a value that is not a number, '1,5'; correct it, and tell",
        b"unit,value,happened_at\na,1,soon\n": "has in row 1 a time that cannot be read, 'soon'; it must be like",
        b"unit,unit,value\na,b,1\n": "its first line must name them, once",
    }.items():
        path.write_bytes(content)
        assert words in refused("live", "tell", shop, "subject line", "--from", path)
    path.write_text("unit,value\na,1\na,0\nb,7\n")
    done = call("live", "tell", shop, "subject line", "--from", path)
    assert done.exit_code == 2
    assert done.stdout == "1 contradiction, 1 parked, 1 refused\n"
    assert done.stderr.startswith("Row 2: another value was told before")


def test_a_file_is_no_unit_unless_a_value_follows(call, live, refused, shop, tmp_path):
    path = tmp_path / "outcomes.csv"
    path.write_text("unit,value\na,1\n")
    assert "which is a file; for the outcomes in it, write --from before it" in refused(
        "live", "tell", shop, "subject line", path
    )
    assert "parked" not in live("status")
    assert call("live", "tell", shop, "subject line", path, "1").stdout == "parked\n"
    assert call("live", "tell", shop, "subject line", "a").stdout == "parked\n"


def test_a_bad_row_leaves_the_batches_before_it_stored(call, live, shop, tmp_path, monkeypatch):
    monkeypatch.setattr(live_asking, "_BATCH", 10)
    path, rows = tmp_path / "outcomes.csv", [f"u{i},{i % 2}" for i in range(35)]
    path.write_text("\n".join(["unit,value", *rows[:24], "u24,one", *rows[25:]]), encoding="utf-8-sig")
    done = call("live", "tell", shop, "subject line", "--from", path)
    assert "has in row 25 a value that is not a number, 'one'" in done.stderr
    assert "20 outcomes parked" in live("status")
    path.write_text("\n".join(["unit,value", *rows]))
    assert live("tell", "--from", path) == "35 parked\n"
    assert "35 outcomes parked" in live("status")


def test_an_event_may_have_happened_earlier(call, refused, tmp_path):
    path = tmp_path / "shop.belated"
    call("live", "create", path, "x", "--arms", "A,B", "--outcome", "events:1h,count")
    call("live", "ask", path, "x", "u")
    tell = ["live", "tell", path, "x", "u", "1"]
    assert call(*tell, "--key", "a", "--happened-at", "2026-03-01T09:30").stdout == "new\n"
    assert call(*tell, "--key", "b").stdout == "new\n"
    with bl.live.open(path, ticking=False) as store, store.storage.reading() as session:
        rows = session.run("select key, happened_at from outcome order by id")
    assert rows == [("a", 1772357400000000), ("b", None)]
    assert "--happened-at is 'soon'; it must be like 2026-03-01T09:30" in refused(*tell, "--happened-at", "soon")
    assert "--key is for one outcome" in refused("live", "tell", path, "x", "--from", path, "--key", "k")


def test_outcomes_and_units_may_be_negative_numbers(call, tmp_path):
    path = tmp_path / "shop.belated"
    assert call("live", "create", path, "x", "--arms", "A,B", "--outcome", "real").exit_code == 0
    assert call("live", "ask", path, "x", "-5").exit_code == 0
    assert call("live", "tell", path, "x", "-5", "-.5").stdout == "new\n"
    assert call("live", "tell", path, "x", "-5", "-2.5", "--correct").stdout == "corrected\n"
    assert call("live", "tell", path, "x", "-5", "--corect").exit_code == 2
    assert call("live", "ask", path, "x", "--unit").exit_code == 2
    assert bl.read(path).log().outcome.tolist() == [-2.5]
