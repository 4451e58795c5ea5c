from __future__ import annotations

import re

import pytest
from served import serving

from belated.live.dashboard.pages import routes
from belated.live.service.metrics import OTHER, Metrics
from tests.live.service.conftest import BUTTON


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_metrics_count_requests_and_rows(served):
    for _ in range(3):
        served.post(f"{BUTTON}/ask", {"unit": "a secret person"})
    served.post(f"{BUTTON}/tell", {"unit": "a secret person", "value": 1})
    served.post(f"{BUTTON}/tell", {"unit": "a secret person", "value": 0})
    served.get("/v1/experiments/%3Cnothing%3E")
    text = served.get("/metrics").body.decode()
    assert 'belated_requests_total{method="POST",route="/v1/experiments/{name}/ask",code="200"} 3' in text
    assert 'belated_requests_total{method="GET",route="/v1/experiments/{name}",code="404"} 1' in text
    assert 'belated_rows_total{kind="ask",experiment="button"} 3' in text
    assert 'belated_rows_total{kind="tell",experiment="button"} 1' in text
    assert 'belated_rows_total{kind="contradiction",experiment="button"} 1' in text
    assert 'belated_request_seconds_count{route="/v1/experiments/{name}/ask"} 3' in text
    assert served.app.service.metrics.contradictions("button") == 1
    assert "secret" not in text
    assert "nothing" not in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'belated_\w+(\{(\w+="[^"]*",?)+\})? [0-9.e+-]+', line), line


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_pages_are_counted_and_methods_that_no_route_has_are_one(place):
    with serving(place.create()._store, routes=routes()) as served:
        assert served.get("/", token=None).status == 401
        for method in ("PROPFIND", "MKCOL", "LOCK", "PURGE", "SEARCH"):
            served.send(method, f"{BUTTON}/ask")
        assert served.send("SECRET", f"{BUTTON}/ask").status == 400  # no method of HTTP at all
        text = served.get("/metrics").body.decode()
    assert 'belated_requests_total{method="GET",route="(page)",code="401"} 1' in text
    assert f'belated_requests_total{{method="{OTHER}",route="(none)",code="405"}} 5' in text
    assert "SECRET" not in text


def test_labels_are_bounded_and_escaped():
    metrics = Metrics(2)
    for name in ("a", 'b"\\\n', "c", "d", "a"):
        metrics.stored("ask", name, 1)
    text = metrics.text()
    assert [line.split()[-1] for line in text.splitlines() if "rows_total{" in line] == ["2", "2", "1"]
    assert 'experiment="b\\"\\\\\\n"' in text
    assert 'experiment="c"' not in text
    assert f'experiment="{OTHER}"}} 2' in text


def test_times_are_counted_up_to_each_bound():
    metrics = Metrics(2)
    for seconds in (0.0005, 0.01, 0.2, 20.0):
        metrics.served("GET", "/x", 200, seconds)
    found = dict(line.rsplit(" ", 1) for line in metrics.text().splitlines())
    bounds = {"0.001": "1", "0.005": "1", "0.01": "2", "0.1": "2", "0.25": "3", "10.0": "3", "+Inf": "4"}
    for bound, number in bounds.items():
        assert found[f'belated_request_seconds_bucket{{route="/x",le="{bound}"}}'] == number
    assert found['belated_request_seconds_count{route="/x"}'] == "4"
    assert float(found['belated_request_seconds_sum{route="/x"}']) == pytest.approx(20.2105)
