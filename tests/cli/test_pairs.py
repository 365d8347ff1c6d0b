import json
import subprocess
import sys

import pytest

from corpo_rl.pairs.files import read_pairs


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "corpo_rl", "pairs", "gsm8k", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def answers(tmp_path):
    path = tmp_path / "answers.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(40):
            right = number % 3
            row = {
                "question": f"A hen lays {number} eggs a day. How many in 2 days?",
                **{
                    model: {
                        "is_correct": index == right or number % 5 == 0,
                        "solution": f"{model} says {number}*2 = <<{number}*2=7>>7\nA: {number * 2}",
                    }
                    for index, model in enumerate(("six", "seven", "eight"))
                },
            }
            file.write(json.dumps(row) + "\n")
    return path


def test_builds_a_file_and_says_what_is_in_it(answers, tmp_path):
    result = run(answers, "--out", tmp_path / "built", "--in-domain", 6, "--ood", 4)
    assert (result.returncode, result.stderr) == (0, "")
    path = tmp_path / "built" / "pairs.jsonl"
    items = read_pairs(path)
    n_train = sum(item.split == "train" for item in items)
    assert sum(item.split == "in_domain" for item in items) == 6
    assert f"{'train':<13}{n_train:>7}    all" in result.stdout
    n_questions = {name: len({item.problem for item in items if item.split == name}) for name in ("in_domain", "ood")}
    assert f"in_domain          6      6 {n_questions['in_domain']:>10}   3 of 6" in result.stdout
    assert f"ood                4      4 {n_questions['ood']:>10}   - (2 both right, rest both wrong)" in result.stdout
    assert "other_domain       0   left empty: these answers are all of one domain" in result.stdout
    assert "Calculator marks removed from 120 answers." in result.stdout
    for rule in (
        "the longer answer is the right one",
        "answer A is the right one",
        "the source that is right more often",
    ):
        assert f"  {rule:<46}0.500" in result.stdout
    assert result.stdout.splitlines()[-1] == str(path)
    assert {"source_a", "source_b"} <= json.loads(path.read_text().splitlines()[0]).keys()


def test_same_seed_same_bytes(answers, tmp_path):
    outs = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    for out, seed in zip(outs, (1, 1, 2), strict=True):
        assert run(answers, "--out", out, "--in-domain", 4, "--ood", 4, "--seed", seed).returncode == 0
    contents = [out.read_bytes() for out in outs]
    assert contents[0] == contents[1] != contents[2]


def test_existing_file_needs_force(answers, tmp_path):
    out = tmp_path / "pairs.jsonl"
    out.write_text("precious")
    result = run(answers, "--out", out, "--in-domain", 4, "--ood", 4)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: {out}: this file exists; name another or replace it with --force\n"
    assert out.read_text() == "precious"
    assert run(answers, "--out", out, "--in-domain", 4, "--ood", 4, "--force").returncode == 0
    assert read_pairs(out)


def test_broken_line_is_one_line_of_error(answers, tmp_path):
    with answers.open("a") as file:
        file.write('{"question": "cut o')
    result = run(answers, "--out", tmp_path / "pairs.jsonl")
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {answers}:41: expected a JSON object, found broken JSON")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "pairs.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--in-domain", -1], 2, "Invalid value for '--in-domain'"),
        (["--max-chars", 10], 1, "but none with a pair of at most 10 characters; allow longer ones"),
        (["--train", 0], 2, "Invalid value for '--train'"),
        (["--seed", -1], 2, "Invalid value for '--seed'"),
    ],
)
def test_sizes_that_cannot_be(answers, tmp_path, arguments, code, message):
    result = run(answers, "--out", tmp_path / "pairs.jsonl", *arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert not (tmp_path / "pairs.jsonl").exists()
