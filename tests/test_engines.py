"""How the tests are shared among workers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from engines import pytest_xdist_make_scheduler


class Worker:
    """A worker that takes tests, and runs them one at a time."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.taken: list[int] = []

    def send_runtest_some(self, places: list[int]) -> None:
        self.taken += places

    def shutdown(self) -> None:
        self.shutting_down = True


def shared(tests: list[str], workers: int) -> list[list[str]]:
    """Return which tests each worker takes, if all take equally long."""
    remote = pytest.importorskip("xdist.remote")
    config = SimpleNamespace(getvalue=lambda _: ["popen"] * workers, option=SimpleNamespace(loadscopereorder=True))
    scheduling = pytest_xdist_make_scheduler(config, remote.Producer("", enabled=False))
    crew = [Worker(f"gw{i}") for i in range(workers)]
    for worker in crew:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    for step in range(len(tests)):
        for worker in crew:
            if step < len(worker.taken):
                scheduling.mark_test_complete(worker, worker.taken[step])
    return [[tests[i] for i in worker.taken] for worker in crew]


def test_a_file_is_one_worker_s_and_all_tests_run():
    files = [f"tests/test_{name}.py::test_{i}" for name in "abcd" for i in range(10)]
    first, second = shared(files, 2)
    assert sorted(first + second) == sorted(files)
    assert first == files[:20]
    assert second == files[:19:-1]


def test_a_server_s_tests_are_one_worker_s_and_come_first():
    plain = [f"tests/test_a.py::test_{i}" for i in range(20)]
    served = [f"tests/test_b.py::test_{i}[{name}]" for i in range(3) for name in ("postgres", "copied", "spark")]
    first, second = shared([*plain, *served], 2)
    assert sorted(first + second) == sorted([*plain, *served])
    assert first[:6] == [name for name in served if "spark" not in name]
    assert second[:3] == [name for name in served if "spark" in name]


@pytest.mark.parametrize("workers", [1, 3, 5])
def test_any_number_of_workers_runs_every_test_once(workers):
    tests = [f"tests/test_{name}.py::test_{i}" for name in "ab" for i in range(7)]
    taken = shared(tests, workers)
    assert sorted(test for each in taken for test in each) == sorted(tests)
