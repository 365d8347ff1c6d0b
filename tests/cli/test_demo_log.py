import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner

from corpo_rl.cli import demo_log as command
from corpo_rl.cli import selftest as check
from corpo_rl.demologs import simulate, write


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "corpo_rl", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_names_offered_are_those_there_are():
    assert tuple(simulate.SCENARIOS) == command.SCENARIOS
    assert write.DEMO_FORMATS == command.FORMATS
    assert set(check.EXPECTED) == set(simulate.SCENARIOS)
    assert set(check.FORMATS) <= set(write.DEMO_FORMATS)


@pytest.mark.parametrize("form", ["trl", "verl-legacy", "csv"])
def test_the_command_it_prints_is_the_one_to_run_next(tmp_path, form):
    out = tmp_path / "demo"
    written = run("demo-log", out, "--format-out", form, "--steps", 5)
    assert written.returncode == 0, written.stderr
    assert written.stderr == ""
    line = next(line for line in written.stdout.splitlines() if line.startswith("next: "))
    audited = run(*shlex.split(line.removeprefix("next: corpo-rl ")))
    assert audited.returncode == 0, audited.stderr
    assert "of failed rollouts were reinforced" in audited.stdout


def test_a_folder_that_is_there_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    refused = run("demo-log", tmp_path)
    assert refused.returncode == 2
    assert "is there already; pass --force" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert (tmp_path / "thesis.tex").exists()


def test_selftest_finds_every_verdict_right(tmp_path):
    found = run("selftest", "--seed", 5, "--keep", tmp_path / "logs")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert len(lines) == 16
    assert all(line.startswith("right ") for line in lines)
    assert sum("warned of: nothing" in line for line in lines if "healthy-binary" in line) == 4
    assert len(list((tmp_path / "logs").iterdir())) == 16


def test_selftest_tells_a_wrong_verdict(monkeypatch):
    monkeypatch.setitem(check.EXPECTED, "inert-floor", {"floor": "OK"})
    found = CliRunner().invoke(check.selftest, [])
    assert "inert-floor in trl: floor is WARN, expected OK" in str(found.exception)
    assert found.exception.exit_code == 1
    assert "wrong  inert-floor" in found.stdout
