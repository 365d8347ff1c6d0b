import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from corpo_rl._version import __version__
from corpo_rl.cli.main import cli
from corpo_rl.cli.pairs_label import label
from corpo_rl.errors import UsageError
from corpo_rl.pairs import labels
from corpo_rl.pairs.labels_file import read_labels
from corpo_rl.records import Limits

needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


def command(*arguments):
    return [sys.executable, "-m", "corpo_rl", "pairs", "label", *map(str, arguments)]


def run(*arguments, env=None):
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
    )


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def problem(name, factor, **more):
    tests = {"entry_point": name, "source": f"assert {name}(1) == {factor}\nassert {name}(3) == {3 * factor}"}
    text = f"Write {name}(x), x times {factor}."
    reference = f"def {name}(x):\n    return {factor} * x\n"
    return {
        "problem_id": name,
        "text": text,
        "tests": tests,
        "prompt": f"def {name}(x):\n",
        "reference": reference,
        **more,
    }


def answers(name, *bodies):
    return [{"problem_id": name, "completion": body, "source": "m"} for body in bodies]


@pytest.fixture
def problems(tmp_path):
    return write(tmp_path / "problems.jsonl", [problem("double", 2), problem("triple", 3)])


@pytest.fixture
def candidates(tmp_path):
    rows = answers("triple", "    return 3 * x\n", "    return 3\n", "    import no_such_module_anywhere\n")
    rows += answers("double", "    return 2 * x\n\nprint(double(2))", "    return x + x\n", "    return (\n")
    return write(tmp_path / "candidates.jsonl", rows)


@needs_sandbox
def test_labels_and_what_is_said_of_them(problems, candidates, tmp_path):
    out = tmp_path / "new" / "labels.jsonl"
    result = run(candidates, "--problems", problems, "--out", out)
    assert result.returncode == 0, result.stderr
    rows = read_labels(out)
    assert [(row.problem_id, row.candidate_id, row.status, row.passed, row.total) for row in rows] == [
        ("double", "0", "ok", 2, 2),
        ("double", "1", "ok", 2, 2),
        ("double", "2", "load_error", 0, 2),
        ("triple", "0", "ok", 2, 2),
        ("triple", "1", "wrong", 1, 2),
        ("triple", "2", "missing_module", 0, 2),
    ]
    assert [row.correct for row in rows] == [True, True, False, True, False, None]
    lines = result.stdout.splitlines()
    assert lines[0] == "Answers 6, problems 2, different programs 6."
    # the references are judged once more where no candidate is the same program: double 0 and triple 0 are
    assert lines[1].startswith("Judged 6 programs in ")
    assert "ok                       3    50.0%" in lines
    assert "missing_module           1    16.7%" in lines
    # 3 of 5 are right; tests passed: (2 + 2 + 0 + 2 + 1) / 2 of 5 = 70%
    assert "Right: 60.0% of the 5 that could be judged, which pass 70.0% of their tests on average." in lines
    assert "Problems with no right answer 0, with right and wrong ones 2, with right ones only 0." in lines
    assert "Not judged for want of a module: no_such_module_anywhere 1." in lines
    assert "References: all 2 solutions that ship with the problems are right." in lines
    assert lines[-1] == str(out)
    assert result.stderr == ""
    assert sorted(path.name for path in out.parent.iterdir()) == ["labels.jsonl"]


@needs_sandbox
def test_uncut_and_as_json(problems, candidates, tmp_path):
    out = tmp_path / "labels.jsonl"
    result = run(candidates, "--problems", problems, "--out", out, "--no-cut", "--json", "--no-check-references")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["n_candidates"] == 6
    assert summary["statuses"]["ok"] == 3
    assert summary["missing_modules"] == {"no_such_module_anywhere": 1}
    assert (summary["n_references"], summary["out"]) == (0, str(out))
    assert read_labels(out)[0].text == "    return 2 * x\n\nprint(double(2))"


@needs_sandbox
def test_stops_of_ones_own(problems, tmp_path):
    given = write(tmp_path / "candidates.jsonl", answers("double", "    return 2 * x\nSTOP\tand this"))
    for stops, status in ((["--stop", r"\nSTOP\t"], "ok"), (["--stop", "HALT", "--stop", r"\nHALT"], "load_error")):
        out = tmp_path / f"{status}.jsonl"
        result = run(given, "--problems", problems, "--out", out, *stops)
        assert result.returncode == 0, result.stderr
        assert read_labels(out)[0].status == status


@needs_sandbox
def test_a_reference_that_fails_is_told_at_once_and_at_the_end(candidates, tmp_path):
    broken = problem("triple", 3, reference="def triple(x):\n    return 3\n")
    given = write(tmp_path / "problems.jsonl", [problem("double", 2), broken])
    result = run(candidates, "--problems", given, "--out", tmp_path / "labels.jsonl")
    assert result.returncode == 0, result.stderr
    warning = (
        "WARNING: 1 of 2 solutions that ship with the problems are not judged right, so labels of these problems are "
        "not to be trusted: triple (wrong, test 2: AssertionError)"
    )
    assert warning in result.stdout.splitlines()
    assert warning in result.stderr
    assert read_labels(tmp_path / "labels.jsonl")[3].correct is True
    strict = tmp_path / "strict.jsonl"
    result = run(candidates, "--problems", given, "--out", strict, "--drop-failed-references", "--json")
    assert json.loads(result.stdout)["failed_references"] == {"triple": "wrong, test 2: AssertionError"}
    assert [row.correct for row in read_labels(strict)] == [True, True, False, None, None, None]


@needs_sandbox
def test_limits_reach_the_candidates(problems, tmp_path):
    bodies = ["    return 2 * x if len('x' * 300_000_000) else 0\n", "    import time; time.sleep(0.7); return 2 * x\n"]
    given = write(tmp_path / "candidates.jsonl", answers("double", *bodies))
    for limits, statuses in (([], ["ok", "ok"]), (["--memory", "200", "--timeout", "0.5"], ["memory", "timeout"])):
        out = tmp_path / f"{len(limits)}.jsonl"
        result = run(given, "--problems", problems, "--out", out, *limits)
        assert result.returncode == 0, result.stderr
        assert [row.status for row in read_labels(out)] == statuses


def test_defaults_are_those_of_the_limits():
    default = {option.name: option.default for option in label.params}
    names = ("timeout", "memory", "max_output", "disk", "threads")
    assert Limits(*(default[name] for name in names)) == Limits()
    assert list(inspect.signature(Limits).parameters) == ["seconds", "memory_mb", "output_bytes", "disk_mb", "threads"]


OPTIONS = {
    "--timeout": "7.5", "--memory": "99", "--max-output": "5", "--disk": "2", "--threads": "3", "--form": "program",
    "--python": "/opt/python3",
}  # fmt: skip


def test_whatever_decides_a_verdict_is_among_the_settings(problems, candidates, tmp_path, monkeypatch):
    """Verdicts kept by an interrupted call are not gone on from under others."""
    seen = []

    def label_candidates(*_, **more):
        seen.append({**more["settings"], "stops": more["stops"]})
        raise UsageError("enough")

    monkeypatch.setattr(labels, "label_candidates", label_candidates)

    def settings(*options, answers=candidates):
        arguments = ["pairs", "label", str(answers), "--problems", str(problems), "--out", str(tmp_path / "out.jsonl")]
        result = CliRunner().invoke(cli, [*arguments, *options])
        assert str(result.exception) == "enough"
        return seen[-1]

    usual = settings()
    assert usual["version"] == __version__
    for option, value in OPTIONS.items():
        other = settings(option, value)
        assert {name for name in other if other[name] != usual[name]} == {option}
    assert settings("--stop", "x")["stops"] == ("x",)
    assert settings("--no-cut")["stops"] == ()
    write(tmp_path / "more.jsonl", answers("double", "x"))
    changed = settings(answers=tmp_path / "more.jsonl")
    assert {name for name in changed if changed[name] != usual[name]} == {"candidates"}
    write(problems, [problem("double", 2), problem("triple", 3), problem("quadruple", 4)])
    changed = settings()
    assert {name for name in changed if changed[name] != usual[name]} == {"problems"}
    # where and how fast they are judged does not matter
    assert settings("--workers", "7", "--engine", "ray") == changed


@needs_sandbox
def test_killed_in_the_middle_the_same_command_finishes(problems, tmp_path):
    n = 40
    bodies = [f"    import time; time.sleep(0.1); return {n + number} * x // {n + number} * 2\n" for number in range(n)]
    bodies += bodies[:10]
    given = write(tmp_path / "candidates.jsonl", answers("double", *bodies))
    out = tmp_path / "labels.jsonl"
    arguments = [given, "--problems", problems, "--out", out, "--workers", "2", "--json"]
    partial = tmp_path / "labels.jsonl.partial"

    def n_kept():
        return partial.read_bytes().count(b"\n") - 1 if partial.exists() else -1

    process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while n_kept() < 6:
        assert process.poll() is None, "it was to be killed in the middle"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ours = descendants(process.pid)
    assert len(ours) >= 4, "two sandboxes for each of two workers"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    kept = n_kept()
    assert 6 <= kept < n
    while any(alive(pid) for pid in ours):
        assert time.monotonic() < deadline, "sandboxes outlive the command"
        time.sleep(0.05)

    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert f"{n + 1}/{n + 1}" in result.stderr
    # 40 programs of candidates, and the reference
    assert (summary["n_judged_before"], summary["n_judged_now"]) == (kept, n + 1 - kept)
    rows = read_labels(out)
    assert Counter(row.candidate_id for row in rows) == Counter(str(number) for number in range(n + 10))
    assert [row.candidate_id for row in rows] == [str(number) for number in range(n + 10)]
    assert {row.status for row in rows} == {"ok"}
    assert not partial.exists()


def descendants(pid):
    """The process's children and theirs, by number."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@needs_sandbox
def test_the_same_command_once_more_is_refused_and_other_settings_do_not_go_on(problems, candidates, tmp_path):
    out = tmp_path / "labels.jsonl"
    arguments = [candidates, "--problems", problems, "--out", out]
    assert run(*arguments).returncode == 0
    before = out.read_bytes()
    again = run(*arguments)
    assert (again.returncode, again.stdout) == (2, "")
    assert error_of(again) == f"error: {out}: this file exists; name another or replace it with --force"
    assert out.read_bytes() == before
    settings = {"version": "0.0", "--timeout": 1.0}
    write(tmp_path / "labels.jsonl.partial", [settings])
    other = run(*arguments)
    assert other.returncode == 2
    assert error_of(other).startswith(f"error: {out}.partial: was begun with --disk null, not 16; go on with the same")
    assert run(*arguments, "--force").returncode == 0
    assert not (tmp_path / "labels.jsonl.partial").exists()


def error_of(result):
    """The one line of an error."""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


def test_without_bubblewrap_nothing_runs_and_nothing_is_left(problems, candidates, tmp_path):
    out = tmp_path / "new" / "labels.jsonl"
    result = run(candidates, "--problems", problems, "--out", out, env={"PATH": str(tmp_path)})
    assert (result.returncode, result.stdout) == (1, "")
    assert "apt install bubblewrap" in error_of(result)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('{"problem_id": "double"', "problems.jsonl:1: expected a JSON object, found broken JSON"),
        ('{"problem_id": "double", "text": "Double."}', "problems.jsonl:1: a problem without tests"),
        ("", "problems.jsonl: expected one problem a line, found no row"),
    ],
)
def test_bad_problems(rows, message, candidates, tmp_path):
    given = tmp_path / "problems.jsonl"
    given.write_text(rows)
    result = run(candidates, "--problems", given, "--out", tmp_path / "labels.jsonl")
    assert (result.returncode, result.stdout) == (1, "")
    assert message in error_of(result)
    assert not (tmp_path / "labels.jsonl.partial").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('{"problem_id": "double", "completion"', "candidates.jsonl:1: expected a JSON object, found broken JSON"),
        ('{"problem_id": "double", "completion": 3}', "candidates.jsonl:1: completion: expected text, found 3"),
        ('{"problem_id": "quadruple", "completion": "x"}', 'problems that are not among the 2 given: "quadruple"'),
        ("", "expected one answer or more, found none"),
    ],
)
def test_bad_candidates(rows, message, problems, tmp_path):
    given = tmp_path / "candidates.jsonl"
    given.write_text(rows)
    result = run(given, "--problems", problems, "--out", tmp_path / "labels.jsonl")
    assert (result.returncode, result.stdout) == (1, "")
    assert message in error_of(result)


@needs_sandbox
def test_problems_and_answers_that_cannot_be_used_are_left_out_when_told_to(candidates, tmp_path):
    given = write(tmp_path / "problems.jsonl", [problem("double", 2), {"problem_id": "triple", "text": "Triple."}])
    result = run(
        candidates, "--problems", given, "--out", tmp_path / "labels.jsonl", "--allow-unusable", "--allow-unknown"
    )
    assert result.returncode == 0, result.stderr
    assert "Left out: 0 empty answers, 3 to problems that are not there." in result.stdout
    assert "Left out: 1 problems that cannot be judged, the first: " in result.stdout
    assert len(read_labels(tmp_path / "labels.jsonl")) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no-cut", "--stop", "x"], "--stop and --no-cut contradict each other"),
        (["--ray-address", "auto"], "--ray-address is for --engine ray"),
        (["--drop-failed-references", "--no-check-references"], "--drop-failed-references needs the references judged"),
        (["--form", "poem"], "form: expected one of program, humaneval"),
        (["--python", "/no/such/python"], "/no/such/python: expected a Python that candidates can run on"),
    ],
)
def test_wrong_calls(options, message, problems, candidates, tmp_path):
    result = run(candidates, "--problems", problems, "--out", tmp_path / "labels.jsonl", *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in error_of(result)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["candidates.jsonl", "problems.jsonl"]


def test_help_fits_a_terminal_and_shows_the_examples():
    shown = run("--help")
    assert shown.returncode == 0
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []
    assert shown.stdout.count("corpo-rl pairs label") == 2


@needs_sandbox
@pytest.mark.parametrize(("field", "told"), [("text", True), ("completion", False)])
def test_continuations_given_as_whole_answers_are_told(field, told, problems, tmp_path):
    rows = [{"problem_id": name, field: body} for name in ("double", "triple") for body in ("    return x\n", "  x(\n")]
    found = run(write(tmp_path / "c.jsonl", rows), "--problems", problems, "--out", tmp_path / "l.jsonl")
    assert found.returncode == 0, found.stderr
    hint = (
        "4 were run alone though their problem has a prompt: an answer that continues the prompt belongs in the field"
    )
    assert (hint in found.stdout) is told
