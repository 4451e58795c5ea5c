"""The tests mirror the tree: every module has a file of tests of its own, in the folder of its package."""

from __future__ import annotations

from pathlib import Path

import belated

SOURCE, TESTS = Path(belated.__file__).parent, Path(__file__).parent

#: Modules whose tests are those of the storages' contract and of the service, until each has a file of its own.
ELSEWHERE = ("live/", "cli/live_runs.py", "cli/live_service.py", "reading/postgres.py")


def test_every_module_has_its_own_tests():
    modules = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.stem.startswith("__"))
    missing = [
        module.as_posix()
        for module in modules
        if not module.as_posix().startswith(ELSEWHERE) and not (TESTS / module.parent / f"test_{module.name}").exists()
    ]
    assert not missing


def test_every_folder_of_tests_is_a_package():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path(), Path("examples")}
    assert {folder.as_posix() for folder in folders if not (SOURCE / folder).is_dir()} == set()
