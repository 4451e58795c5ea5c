from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import belated as bl


def test_importing_the_package_imports_no_other_library():
    code = "import sys, belated; print(*{name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {name for name in done.stdout.split() if not name.startswith(("_", "sitecustomize"))} == {"belated"}


def test_every_public_name_is_there_and_where_type_checkers_look_for_it():
    assert set(bl.__all__) == {*bl._MODULE_OF, "__version__"}
    assert set(bl.__all__) <= set(dir(bl))
    tree = ast.parse(Path(inspect.getfile(bl)).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    homes = {alias.name: node.module for node in checked.body for alias in node.names}
    for name, module in bl._MODULE_OF.items():
        assert module in (homes[name], f"{homes[name]}.{name}")
        value = getattr(bl, name)
        assert inspect.ismodule(value) == (name in ("arms", "delays", "live", "policies"))
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__ == module


def test_all_names_can_be_imported_at_once():
    names = {}
    exec("from belated import *", names)  # noqa: S102
    assert set(bl.__all__) <= set(names)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'belated' has no attribute 'estimat'"):
        _ = bl.estimat
