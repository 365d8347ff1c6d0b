"""What the doctor finds out about verl itself, in a process of its own."""

import os

from corpo_rl.doctor.installed import check_plugin
from corpo_rl.training import verl as adapter


def test_a_right_installation_is_met_with_silence_here_and_in_a_ray_worker():
    assert check_plugin(in_ray=True) == []


def test_switched_off_is_found_unless_the_module_is_named(monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    (one,) = check_plugin(in_ray=False)
    assert "keeps corpo-rl from being loaded" in one.what
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", adapter.__name__)
    assert check_plugin(in_ray=False) == []


def test_an_import_error_that_verl_hides_is_shown_with_its_place(tmp_path, monkeypatch):
    # a module of ours that cannot be imported, found before the real one
    broken = tmp_path / "corpo_rl"
    (broken / "training").mkdir(parents=True)
    (broken / "__init__.py").write_text("")
    (broken / "training" / "__init__.py").write_text("")
    (broken / "training" / "verl.py").write_text("\nimport a_library_that_is_not_there\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path)]))
    (one,) = check_plugin(in_ray=False)
    assert one.severity == "error"
    assert "which verl itself does not say" in one.what
    assert "No module named 'a_library_that_is_not_there'" in one.what
    assert "(verl.py:2)" in one.what
