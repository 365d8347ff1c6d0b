import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from corpo_rl.cli.auditing import reading_options
from corpo_rl.cli.curate import _OF_THE_AUDIT, curate
from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.report.curation_text import check_curation

RATES = {"q0": 0, "q1": 1, "q2": 2, "q3": 4, "q4": 6, "q5": 8}
"""Correct ones of the eight rollouts of each prompt, which fill two groups of four."""


def rows_of(rates=RATES):
    """Each prompt in two groups, of step 0 and of step 1; what failed got tenths in step 1 and nothing in step 0."""
    rows = []
    for prompt, n_correct in rates.items():
        for place in range(8):
            reward = 1.0 if place < n_correct else (place % 3) / 10 if place % 2 else 0.0
            rows.append({"step": place % 2, "prompt": prompt, "reward": reward})
    return rows


def write_log(folder, rows=None):
    path = folder / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows or rows_of()), encoding="utf-8")
    return path


def run(*arguments):
    """Standard output of a call that works."""
    done = CliRunner().invoke(curate, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments):
    done = CliRunner().invoke(curate, [str(argument) for argument in arguments])
    assert isinstance(done.exception, CorpoError), done.output
    assert "\n" not in str(done.exception)
    return done.exception


def test_the_band_keeps_what_lies_in_it_ends_included(tmp_path):
    document = json.loads(run(write_log(tmp_path), "--min-correct", 1, "--band", "0.25,0.75", "--json"))
    check_curation(document)
    assert [row["prompt"] for row in document["prompts"]] == list(RATES)
    assert [row["success_rate"] for row in document["prompts"]] == [n / 8 for n in RATES.values()]
    assert [row["prompt"] for row in document["prompts"] if row["kept"]] == ["q2", "q3", "q4"]
    assert document["reasons"] == {"in band": 3, "below band": 2, "above band": 1, "too few rollouts": 0}
    assert (document["n_prompts"], document["n_kept"]) == (6, 3)
    assert [row["n_prompts"] for row in document["by_rate"]] == [1, 1, 1, 1, 1, 0, 1]
    # q0 failed in both of its groups, q1 in that of step 1, and in step 1 failures differ
    assert document["dropped_all_failed"] == {
        "n_prompts_never_correct": 1,
        "n_prompts_never_correct_graded": 1,
        "n_prompts_with_such_groups": 2,
        "n_prompts_below_band": 2,
        "n_groups_equal": 1,
        "n_groups_graded": 2,
    }


def test_the_text_says_the_same_within_80_columns(tmp_path):
    text = run(write_log(tmp_path), "--min-correct", 1, "--band", "0.25,0.75")
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert "The band 0.25 to 0.75 keeps 3 of 6 prompts: 3 are in it, 2 below and 1 above." in words
    assert "What is dropped has 3 groups that all failed, of 2 prompts; 1 of the prompts dropped were never" in words
    assert "CoRPO would learn from these groups" in words
    (line,) = [line for line in text.splitlines() if line.startswith("q3")]
    # four rewards of 1, then 0, 0.2, 0 and 0.1: 4.3 / 8
    assert line.split() == ["q3", "4/8", "50", "%", "[0.22,", "0.78]", "0.54", "kept"]


def test_uncertain_prompts_are_kept_or_dropped_as_told(tmp_path):
    log = write_log(tmp_path, [*rows_of(), {"step": 0, "prompt": "rare", "reward": 0.0}])
    for uncertain, kept in (("keep", True), ("drop", False)):
        document = json.loads(run(log, "--min-correct", 1, "--band", "0.25,0.75", "--uncertain", uncertain, "--json"))
        (rare,) = [row for row in document["prompts"] if row["prompt"] == "rare"]
        assert (rare["reason"], rare["kept"], rare["settled"]) == ("too few rollouts", kept, False)
    document = json.loads(run(log, "--min-correct", 1, "--band", "0.25,0.75", "--min-rollouts", 1, "--json"))
    assert document["prompts"][-1]["reason"] == "below band"


def test_only_the_steps_asked_for_are_looked_at(tmp_path):
    log = write_log(tmp_path)
    whole = ["--min-correct", "1", "--band", "0,1", "--min-rollouts", "1", "--json"]
    last = json.loads(run(log, *whole, "--last-steps", 1))
    assert last["log"]["steps"] == {"first": 1, "last": 1, "n": 1}
    assert (last["log"]["n_groups"], last["log"]["n_groups_looked_at"]) == (12, 6)
    # of the first three places of q3 two, 0 and 2, are of step 0
    assert [row["n_correct"] for row in last["prompts"]] == [0, 0, 1, 2, 3, 4]
    assert json.loads(run(log, *whole, "--steps", "0,1"))["prompts"][3]["n_correct"] == 4


def test_out_lists_every_prompt_and_is_not_replaced_unasked(tmp_path):
    log, out = write_log(tmp_path), tmp_path / "list.jsonl"
    arguments = [log, "--min-correct", 1, "--band", "0.25,0.75", "--out", out]
    document = json.loads(run(*arguments, "--json"))
    listed = [json.loads(line) for line in out.read_text().splitlines()]
    assert listed == document["prompts"]
    out.write_text("mine")
    assert str(refused(*arguments)) == f"{out}: is there already; pass --force to replace it"
    assert out.read_text() == "mine"
    run(*arguments, "--force")
    assert len(out.read_text().splitlines()) == 6


def test_a_training_set_of_json_lines_keeps_the_rows_in_the_band(tmp_path):
    data, out = tmp_path / "train.jsonl", tmp_path / "kept.jsonl"
    texts = ["q4", "q0", "new", "q2", "q5", "q2"]
    data.write_text("".join(json.dumps({"n": n, "prompt": text}) + "\n" for n, text in enumerate(texts)))
    lines = data.read_bytes().splitlines(keepends=True)
    arguments = [write_log(tmp_path), "--min-correct", 1, "--band", "0.25,0.75", "--filter-dataset", data,
                 "--out-dataset", out]  # fmt: skip
    document = json.loads(run(*arguments, "--json"))
    assert out.read_bytes() == b"".join(lines[place] for place in (0, 2, 3, 5))
    assert document["dataset"] == {
        "path": str(data),
        "out": str(out),
        "matched_by": "the prompt of the log is prompt of the data set",
        "n_rows": 6,
        "n_rows_kept": 4,
        "n_rows_unmatched": 1,
        "n_rows_unmatched_kept": 1,
        "n_prompts_unmatched": 2,
    }
    assert "is there already" in str(refused(*arguments))
    text = " ".join(run(*arguments, "--force", "--uncertain", "drop").split())
    assert out.read_bytes() == b"".join(lines[place] for place in (0, 3, 5))
    assert "Rows of it without a prompt in the log: 1, uncertain too and dropped." in text
    assert "Prompts of the log without a row in it: 2." in text


def test_a_verl_training_set_from_a_verl_log(tmp_path):
    log = tmp_path / "rollouts"
    log.mkdir()
    rows = [
        {
            "input": f"user\n{row['prompt']} of all\nassistant\n",
            "output": "x",
            "score": row["reward"],
            "step": row["step"],
        }
        for row in rows_of()
    ]
    for step in (0, 1):
        text = "".join(json.dumps(row) + "\n" for row in rows if row["step"] == step)
        (log / f"{step}.jsonl").write_text(text)
    data, out = tmp_path / "train.parquet", tmp_path / "kept.parquet"
    table = pa.Table.from_pylist([
        {"data_source": "d", "prompt": [{"role": "user", "content": f"{name} of all"}], "extra_info": {"index": n}}
        for n, name in enumerate(["q1", "q2", "q3", "q4", "q9"])
    ])  # fmt: skip
    pq.write_table(table, data, row_group_size=2)
    text = run(log, "--min-correct", 1, "--band", "0.2,0.6", "--uncertain", "drop", "--filter-dataset", data,
               "--out-dataset", out)  # fmt: skip
    assert pq.read_table(out).equals(table.take([1, 2]))
    assert pq.ParquetFile(out).num_row_groups == 2
    assert "with the chat template taken off" in " ".join(text.split())


def test_ids_match_a_nested_column(tmp_path):
    rows = [{"prompt_id": int(row["prompt"][1:]), "step": row["step"], "reward": row["reward"]} for row in rows_of()]
    data, out = tmp_path / "train.jsonl", tmp_path / "kept.jsonl"
    data.write_text("".join(json.dumps({"extra_info": {"index": f"{n}"}}) + "\n" for n in range(6)))
    run(write_log(tmp_path, rows), "--min-correct", 1, "--band", "0.25,0.75", "--filter-dataset", data, "--out-dataset",
        out, "--dataset-column", "extra_info.index")  # fmt: skip
    kept = [json.loads(line)["extra_info"]["index"] for line in out.read_text().splitlines()]
    assert kept == ["2", "3", "4"]


def test_correctness_can_come_from_a_label_or_from_one_of_several_rewards(tmp_path):
    rows = [
        {**row, "reward": 0.25, "ok": row["reward"] == 1.0, "format": 1.0, "right": row["reward"]} for row in rows_of()
    ]
    log = write_log(tmp_path, rows)
    by_label = json.loads(run(log, "--correct-column", "ok", "--band", "0.25,0.75", "--json"))
    assert by_label["correct_by"] == "label ok"
    assert by_label["min_correct"] is None
    weights = ["--reward-weights", "right=1,format=0.2", "--correct-component", "right=1"]
    by_part = json.loads(run(log, *weights, "--band", "0.25,0.75", "--json"))
    for document in (by_label, by_part):
        assert [row["n_correct"] for row in document["prompts"]] == list(RATES.values())


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            ["--band", "0.2"],
            UsageError,
            "--band: expected two numbers with a comma between them, as 0.2,0.8, got '0.2'",
        ),
        (["--band", "0.8,0.2"], UsageError, "--band: expected LOW,HIGH with 0 <= LOW <= HIGH <= 1, got 0.8,0.2"),
        (["--steps", "1-2"], UsageError, "--steps: expected two whole numbers, as 100,200, got '1-2'"),
        (["--steps", "2,1"], UsageError, "--steps: expected the first step before the last"),
        (["--steps", "0,1", "--last-steps", "1"], UsageError, "--last-steps and --steps: expected one of the two"),
        (["--steps", "8,9"], DataError, "no group of steps 8 to 9; the log has 0 to 1"),
        (["--filter-dataset", "x.jsonl"], UsageError, "--filter-dataset and --out-dataset: expected both"),
        (["--dataset-column", "x"], UsageError, "--filter-dataset and --out-dataset: expected both"),
        (["--filter-dataset", "x.jsonl", "--out-dataset", "y.jsonl"], UsageError, "x.jsonl: no such file"),
        (["--reward-column", "none"], DataError, "no column 'none'"),
        (["--min-correct", "inf"], UsageError, "min_correct: expected a finite number"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path, arguments, kind, message):
    standard = ["--min-correct", "1"] if "--min-correct" not in arguments else []
    standard += ["--band", "0.25,0.75"] if "--band" not in arguments else []
    error = refused(write_log(tmp_path), *standard, *arguments)
    assert isinstance(error, kind)
    assert message in str(error)


def test_without_a_threshold_or_prompts_the_log_is_refused(tmp_path):
    assert "nothing says which rollouts are correct" in str(refused(write_log(tmp_path), "--band", "0.2,0.8"))
    rows = [{"group_id": "g", "reward": 0.5}, {"group_id": "g", "reward": 1.0}]
    error = refused(write_log(tmp_path, rows), "--min-correct", 1, "--band", "0.2,0.8")
    assert "the log does not tell its prompts" in str(error)


def test_odd_prompts_are_shown_on_one_line_and_written_as_json(tmp_path):
    odd = ["\x1b[31mred\n\x00", "\ud800 alone", "表" * 60, ""]
    rows = [{"prompt": text, "group_id": f"g{n}", "reward": 1.0} for n, text in enumerate(odd) for _ in range(2)]
    out = tmp_path / "list.jsonl"
    text = run(write_log(tmp_path, rows), "--min-correct", 1, "--band", "0,1", "--min-rollouts", 1, "--out", out)
    assert all(line.isprintable() for line in text.splitlines())
    assert [json.loads(line)["prompt"] for line in out.read_text().splitlines()] == odd


def test_as_a_process_an_error_is_a_line_without_a_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "corpo_rl", "curate", "none.jsonl", "--band", "0.2,0.8", "--min-correct", "1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: none.jsonl: no such file or folder; check the path\n"
    missing = CliRunner().invoke(curate, ["x.jsonl"])
    assert missing.exit_code == 2
    assert "Missing option '--band'" in missing.stderr


def test_a_log_is_read_with_the_options_of_the_audit():
    import click

    @click.command()
    @reading_options
    def other(**_):
        pass

    ours = {option.name for option in curate.params}
    theirs = {option.name for option in other.params}
    assert theirs - ours == set(_OF_THE_AUDIT)
