from __future__ import annotations

import pytest

import belated as bl


def test_options_of_a_service_are_refused_for_a_file_and_the_other_way_round(tmp_path):
    for option in ({"token": "x"}, {"timeout": 1}, {"retries": 0}, {"fallback": "A"}):
        with pytest.raises(bl.OptionError, match="is of a service"):
            bl.live.open(tmp_path / "shop.belated", **option)
    with pytest.raises(bl.OptionError, match="`clock` is of a file or a database"):
        bl.live.open("http://x", token="x", clock=lambda: 0)  # noqa: S106
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [None, 7, "", "a\x00b"])
def test_what_is_no_place_is_refused_in_a_sentence(place):
    with pytest.raises(bl.OptionError, match="`place` is"):
        bl.live.open(place)


def test_the_address_of_a_service_is_opened_through_its_client():
    for url in ("http://127.0.0.1:9", "https://experiments.example.org/shop"):  # nothing is sent yet
        with bl.live.open(url, token="x", fallback="A") as store:  # noqa: S106
            assert type(store) is bl.live.RemoteStore


def test_a_path_is_opened_as_a_file(tmp_path):
    with bl.live.open(tmp_path / "shop.belated", ticking=False, limit=3) as store:
        assert type(store) is bl.live.Store
    with pytest.raises(bl.live.LiveError, match="There is no file"):
        bl.live.open(tmp_path / "other.belated", make=False)
    assert [path.name for path in tmp_path.iterdir()] == ["shop.belated"]
