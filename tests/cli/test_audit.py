import json
import re
import shlex
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from corpo_rl.cli.audit import audit
from corpo_rl.cli.auditing import ESTIMATORS, FORMATS
from corpo_rl.core import advantages
from corpo_rl.demologs.simulate import synthetic_graded
from corpo_rl.rollouts.detect import FORMATS as READERS
from tests.audit.logs import graded
from tests.audit.recount import recount

FLOOR = 0.7


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "corpo_rl", "audit", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def invoke(*arguments):
    return CliRunner().invoke(audit, [str(argument) for argument in arguments])


def write_log(path, rollouts):
    path.write_text("".join(json.dumps(one) + "\n" for one in rollouts))
    return path


def synthetic():
    """The graded run of which a third of the failures is reinforced and most groups hold no success."""
    made = synthetic_graded(40_000, seed=0)
    columns = zip(
        made.group_N.tolist(), made.prompt_N.tolist(), made.step_N.tolist(), made.rewards_N.tolist(), strict=True
    )
    return [{"group": g, "prompt_id": p, "step": s, "reward": r} for g, p, s, r in columns]


@pytest.fixture(scope="module", params=["synthetic", "with rows nobody could score"])
def rollouts(request):
    return synthetic() if request.param == "synthetic" else graded(300, seed=11, sizes=(8,), nulls=0.02)


@pytest.fixture(scope="module")
def log(tmp_path_factory, rollouts):
    return write_log(tmp_path_factory.mktemp("log") / "run.jsonl", rollouts)


@pytest.fixture(scope="module")
def expected(rollouts):
    return recount(rollouts, min_correct=FLOOR, estimator="grpo")


def test_the_names_offered_are_those_there_are():
    assert ESTIMATORS == advantages.ESTIMATORS
    assert {known.name for known in READERS} == set(FORMATS)
    assert len(READERS) == len(FORMATS)


def test_every_form_of_the_report_has_the_recounted_figures(log, rollouts, expected):
    counts, classes = expected["counts"], expected["classes"]
    n_failed = sum(counts[f"failed {sign}"] for sign in ("up", "level", "down"))
    share = f"{100 * counts['failed up'] / n_failed:.1f}"
    figures = [counts["failed up"], n_failed, counts["failed down"], counts["correct up"], counts["correct down"],
               classes["all_failed_graded"], classes["mixed"]]  # fmt: skip
    document = json.loads(invoke(log, "--min-correct", FLOOR, "--format", "json").stdout)
    assert document["n_rollouts"] == len(rollouts)
    assert document["n_unscorable"] == sum(one["reward"] is None for one in rollouts)
    assert document["n_reinforced_failures"] == counts["failed up"]
    assert document["reinforced_failure_share"]["value"] == counts["failed up"] / n_failed
    assert document["group_classes"] == classes
    assert document["table"]["failed"]["rollouts"]["negative"] == counts["failed down"]
    for form in ("text", "md", "html"):
        shown = invoke(log, "--min-correct", FLOOR, "--format", form).stdout
        untagged = re.sub(r"<[^>]+>", " ", shown) if form == "html" else shown
        plain = untagged.replace("\N{NO-BREAK SPACE}", " ").replace("\\", "")
        assert f"{share} %" in plain, form
        for figure in figures:
            assert re.search(rf"(?<![\d,.]){figure:,}(?![\d,.])", plain), (form, figure)


def test_groups_told_by_step_and_prompt_alone_are_warned_of(tmp_path):
    """A prompt that a step samples twice is one group of 16 then, and the figures are others."""
    rows = synthetic()
    merged = write_log(tmp_path / "merged.jsonl", [{k: v for k, v in row.items() if k != "group"} for row in rows])
    document = json.loads(invoke(merged, "--min-correct", FLOOR, "--format", "json").stdout)
    assert document["log"]["group_sizes"]["16"] > 0
    assert any("16 rollouts, 2 times the usual 8" in warning for warning in document["log"]["warnings"])
    right = recount(rows, min_correct=FLOOR, estimator="grpo")["counts"]["failed up"]
    assert document["n_reinforced_failures"] != right


def test_the_format_and_the_grouping_are_said(tmp_path):
    log = write_log(tmp_path / "run.jsonl", graded(300, seed=11, sizes=(8,), nulls=0.02))
    shown = invoke(log, "--min-correct", FLOOR).stdout
    assert shown.startswith("plain table, 1 file, grouped by step and group, 300 groups of 8")
    document = json.loads(invoke(log, "--min-correct", FLOOR, "--format", "json").stdout)
    assert document["log"]["columns_used"]["length"] == "length"
    assert document["log"]["columns_unused"] == []


def test_results_on_stdout_and_nothing_else(log):
    found = run(log, "--min-correct", FLOOR, "--format", "json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["command"] == shlex.join(
        ["corpo-rl", "audit", str(log), "--min-correct", str(FLOOR), "--format", "json"]
    )
    assert found.stderr == ""


def test_without_a_threshold_the_levels_are_shown_and_asked_for(log):
    found = run(log)
    assert found.returncode == 2
    assert "Thresholds" in found.stdout
    assert found.stderr.startswith(f"error: {log}: nothing says which rollouts are correct")
    assert len(found.stderr.strip().splitlines()) == 1


def test_out_is_written_once_and_replaced_only_by_force(log, tmp_path):
    out = tmp_path / "audit.html"
    first = run(log, "--min-correct", FLOOR, "--format", "html", "--out", out)
    assert (first.returncode, first.stdout) == (0, "")
    assert out.read_text().startswith("<!DOCTYPE html>")
    again = run(log, "--min-correct", FLOOR, "--format", "html", "--out", out)
    assert again.returncode == 2
    assert "is there already; pass --force" in again.stderr
    assert run(log, "--min-correct", FLOOR, "--format", "md", "--out", out, "--force").returncode == 0
    assert not out.read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


@pytest.mark.parametrize(
    ("fail_on", "code", "message"),
    [
        ("warn", 1, "reinforced_failures is WARN"),
        ("reinforced_failures", 1, "--fail-on: reinforced_failures is WARN"),
        ("correctness", 0, ""),
        ("not-checked", 1, "reward_ordering is NOT CHECKED"),
        ("nonsense", 2, "--fail-on: expected warn, note, not-checked or ids of findings"),
    ],
)
def test_fail_on(log, fail_on, code, message):
    found = run(log, "--min-correct", FLOOR, "--fail-on", fail_on)
    assert found.returncode == code
    assert message in found.stderr
    assert len(found.stderr.splitlines()) <= 1


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("empty.jsonl", "", 2, "the log holds no row; nothing to audit"),
        ("missing.jsonl", '{"group": 1, "points": 2}\n', 1, "no column 'reward' (columns: group, points)"),
        ("null.jsonl", '{"group": 1, "reward": null}\n', 1, "no rollout has a reward"),
        ("broken.jsonl", '{"group": 1, "rew\n', 1, ""),
        ("ungrouped.jsonl", '{"reward": 1.0}\n', 1, "pass --group-columns"),
    ],
)
def test_a_bad_log_is_one_line(tmp_path, name, content, code, message):
    path = tmp_path / name
    path.write_text(content)
    found = run(path, "--min-correct", 1)
    assert found.returncode in ((1, 2) if not message else (code,))
    assert found.stderr.startswith("error: ")
    assert str(path) in found.stderr
    assert message in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such/log"], "no such file or folder"),
        (["--min-correct", "nan"], "min_correct: expected a finite number"),
        (["--reward-weights", "a=b"], "--reward-weights: expected numbers"),
        (["--estimator", "corpo"], "needs the least reward that counts as correct"),
    ],
)
def test_a_wrong_call_is_one_line(log, arguments, message):
    logs = [] if arguments[0].startswith("/") else [log]
    found = run(*logs, *arguments)
    assert found.returncode == 2
    assert message in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_a_file_name_with_a_line_end_stays_on_one_line(tmp_path):
    path = tmp_path / "a\nb.jsonl"
    path.write_text("")
    found = run(path, "--min-correct", 1)
    assert len(found.stderr.strip().splitlines()) == 1
    assert "a\\nb.jsonl" in found.stderr


def test_no_text_shows_none(tmp_path):
    rows = [{**one, "prompt": "SECRET QUESTION", "completion": "SECRET ANSWER"} for one in graded(40, seed=1)]
    path = write_log(tmp_path / "run.jsonl", rows)
    for form in ("text", "md", "json", "html"):
        assert "SECRET ANSWER" in invoke(path, "--min-correct", FLOOR, "--format", form).stdout
        hidden = invoke(path, "--min-correct", FLOOR, "--format", form, "--no-text").stdout
        assert "SECRET" not in hidden
        assert len(hidden) > 500


def test_a_reader_that_has_enough_ends_it_in_silence(log):
    command = f"{shlex.quote(sys.executable)} -m corpo_rl audit {shlex.quote(str(log))} --min-correct {FLOOR} | head -2"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=True)
    assert found.stderr == ""
    assert len(found.stdout.splitlines()) == 2


def test_diff_of_logs_and_of_documents(log, tmp_path):
    other = write_log(tmp_path / "other.jsonl", graded(200, seed=5))
    saved = tmp_path / "a.json"
    assert run(log, "--min-correct", FLOOR, "--format", "json", "--out", saved).returncode == 0
    found = run("diff", saved, other, "--min-correct", FLOOR, "--format", "json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["a"]["name"] == str(saved)
    share = next(one for one in document["figures"] if one["key"] == "reinforced_failure_share")
    assert share["difference"] == share["b"] - share["a"] != 0
    for form in ("text", "md", "html"):
        shown = run("diff", saved, other, "--min-correct", FLOOR, "--format", form)
        assert shown.returncode == 0, shown.stderr
        assert f"{100 * share['a']:.1f}" in shown.stdout


def test_diff_without_a_verdict_says_whose_and_what_to_pass(log, tmp_path):
    saved = tmp_path / "a.json"
    assert invoke(log, "--min-correct", FLOOR, "--format", "json", "--out", saved).exit_code == 0
    found = run("diff", saved, log)
    assert found.returncode == 2
    assert found.stderr == (
        f"error: {log}: nothing says which rollouts are correct; pass --min-correct or --correct-column (for a saved "
        "document: when it is made)\n"
    )
    assert "not known in both" in found.stdout  # what can be said without it is said


def test_diff_refuses_a_document_of_another_form(log, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"schema": "corpo-rl.audit/1", "n_rollouts": "many"}')
    found = run("diff", bad, log, "--min-correct", FLOOR)
    assert found.returncode == 1
    assert str(bad) in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_follow_tells_each_step_once_and_then_reports(tmp_path):
    path = tmp_path / "live.jsonl"
    rows = graded(30, seed=2)
    steps = sorted({one["step"] for one in rows})

    def write():
        for step in steps:
            with path.open("a") as file:
                file.writelines(json.dumps(one) + "\n" for one in rows if one["step"] == step)
            time.sleep(0.4)

    writer = threading.Thread(target=write)
    writer.start()
    found = run(path, "--min-correct", FLOOR, "--follow", "--every", "0.1", "--idle", "3")
    writer.join()
    assert found.returncode == 0, found.stderr
    lines = [
        line for line in found.stdout.splitlines() if line.startswith("step ") and "of failures reinforced" in line
    ]
    assert [int(line.split()[1].rstrip(":")) for line in lines] == steps[:-1]
    assert "30 groups of 8" in found.stdout
