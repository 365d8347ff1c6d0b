import importlib
import sys

import pytest

from corpo_rl.training.after_import import after_import


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A package with a module in it, importable, and forgotten after the test."""
    package = tmp_path / "planted_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("VALUE = 1\n")
    (package / "user.py").write_text("from planted_package.part import VALUE\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield "planted_package"
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name.startswith("planted_package")]:
        del sys.modules[name]


def test_acts_before_the_importing_module_binds_a_name(planted):
    def change(module):
        module.VALUE = 2

    after_import(f"{planted}.part", change)
    assert f"{planted}.part" not in sys.modules, "watching must not import"
    assert importlib.import_module(f"{planted}.user").VALUE == 2


def test_acts_at_once_on_a_module_that_is_there(planted):
    importlib.import_module(f"{planted}.part")
    seen = []
    after_import(f"{planted}.part", seen.append)
    assert seen == [sys.modules[f"{planted}.part"]]


def test_acts_once_and_leaves_no_watcher_behind(planted):
    seen = []
    before = len(sys.meta_path)
    after_import(f"{planted}.part", seen.append)
    module = importlib.import_module(f"{planted}.part")
    assert len(sys.meta_path) == before
    importlib.reload(module)
    assert len(seen) == 1


def test_an_absent_module_stays_absent(planted):
    after_import(f"{planted}.nothing", lambda module: None)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'planted_package\.nothing'"):
        importlib.import_module(f"{planted}.nothing")


def test_what_it_raises_the_import_raises(planted):
    def refuse(module):
        raise RuntimeError("not this one")

    after_import(f"{planted}.part", refuse)
    with pytest.raises(RuntimeError, match="not this one"):
        importlib.import_module(f"{planted}.part")
