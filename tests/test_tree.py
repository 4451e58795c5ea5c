"""The tests mirror the tree, a file of tests for each module; no two classes or types have the same name."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import belated

SOURCE, TESTS = Path(belated.__file__).parent, Path(__file__).parent


def test_every_module_has_its_own_tests():
    modules = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.stem.startswith("__"))
    assert [each.as_posix() for each in modules if not (TESTS / each.parent / f"test_{each.name}").exists()] == []


def test_every_folder_of_tests_is_a_package():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path(), Path("examples")}
    assert {folder.as_posix() for folder in folders if not (SOURCE / folder).is_dir()} == set()


def test_a_class_has_a_name_of_its_own():
    trees = (ast.parse(path.read_text()) for path in SOURCE.rglob("*.py"))
    names = Counter(name for tree in trees for name in classes(tree))
    assert [name for name, times in names.items() if times > 1] == []


def test_an_alias_of_a_type_has_a_name_of_its_own():
    paths = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "cli"]
    trees = [ast.parse(path.read_text()) for path in paths]  # options of commands are named after what they are about
    names = Counter(name for tree in trees for name in (*classes(tree), *aliases(tree)))
    assert [name for name, times in names.items() if times > 1] == []


def classes(tree):
    """Return the names of a module's classes."""
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def aliases(tree):
    """Return the names of a module's types that are not classes, such as Light = Literal["green", "red"]."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found += [(target.id, node.value) for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append((node.target.id, node.value))
    called = [name for name, value in found if isinstance(value, ast.Call)]  # TypeVar("T"), and objects
    return [name for name, _ in found if name[0].isupper() and not name.isupper() and name not in called]
