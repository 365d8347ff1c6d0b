import json
import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from corpo_rl.pairs.cut import answer_text
from corpo_rl.pairs.files import normalised, read_pairs
from corpo_rl.pairs.near_duplicates import cluster_problems

DATA = Path(__file__).parents[3] / "shared" / "data"
PUBLISHED = [
    DATA / "humaneval" / "HumanEval.jsonl.gz",
    DATA / "codet" / "HumanEval_codegen16B_num100_code_solution.jsonl",
    DATA / "codet" / "derived_labels_codegen16B.jsonl",
    DATA / "gsm8k" / "example_model_solutions.jsonl",
]


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "corpo_rl", "pairs", "build", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, **environment},
    )


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def label(problem_id, candidate_id, text, correct, **changes):
    status = {True: "ok", False: "wrong", None: "missing_module"}[correct]
    return {
        "problem_id": problem_id,
        "candidate_id": str(candidate_id),
        "source": "small",
        "text": text,
        "correct": correct,
        "passed": int(correct is True),
        "total": 1,
        "status": status,
        "detail": "",
        "program_sha256": "not a field of labels that pairs need",
        **changes,
    }


@pytest.fixture
def files(tmp_path):
    """20 problems of code with 12 labels each, and 30 of math with the labels of three models."""
    rng = np.random.default_rng(0)
    problems, labels, math = [], [], []
    for number in range(20):
        words = " ".join(rng.choice(["hen", "egg", "tall", "river", "stone", "walks", "sells", "ten"], size=14))
        problems.append(
            {
                "task_id": f"made/{number}",
                "prompt": f'def f{number}(x):\n    """{words} {number}"""\n',
                "entry_point": f"f{number}",
                "test": f"assert f{number}(1) == 2",
            }
        )
        for place in range(12):
            text = f"    return x + {place}" + " + 0" * int(rng.integers(6))
            labels.append(label(f"made/{number}", place, text, bool(rng.random() < 0.4)))
    labels.append(label("made/0", "m", "    import numpy", None))
    for number in range(30):
        words = " ".join(rng.choice(["ties", "coins", "trains", "shops", "cards", "boats", "runs", "six"], size=14))
        math.append(
            {
                "question": f"{words} {number}?",
                **{
                    model: {"is_correct": bool(rng.random() < 0.5), "solution": f"It is {number}{model}.\nA: {number}"}
                    for model in ("one", "two", "six")
                },
            }
        )
    return [
        write(tmp_path / "labels.jsonl", labels),
        "--problems",
        write(tmp_path / "problems.jsonl", problems),
        "--other",
        write(tmp_path / "math.jsonl", math),
    ]


SIZES = ("--train", 60, "--in-domain", 10, "--ood", 8, "--other-domain", 6)


def test_builds_a_set_and_says_what_is_in_it(files, tmp_path):
    out = tmp_path / "set"
    result = run(*files, "--out", out, *SIZES)
    assert (result.returncode, result.stderr) == (0, "")
    items = read_pairs(out / "pairs.jsonl")
    sizes = Counter(item.split for item in items)
    assert sizes == {"train": 60, "in_domain": 10, "ood": 8, "other_domain": 6}
    assert {(item.split, item.domain) for item in items} == {
        ("train", "code"), ("in_domain", "code"), ("ood", "code"), ("other_domain", "math"),
    }  # fmt: skip
    for split, size in sizes.items():
        n_problems = len({item.problem for item in items if item.split == split})
        assert f"{split:<13}{size:>7}{size:>7}{n_problems:>10}" in result.stdout
    assert "code: 20 problems, 20 with right and wrong answers" in result.stdout
    assert "1 could not be judged (missing_module)" in result.stdout
    assert f"  {'train':<13}{'the longer answer is the right one':<46}0.500" in result.stdout
    assert result.stdout.splitlines()[-1] == str(out)

    numbers = json.loads((out / "numbers.json").read_text())
    assert numbers["command"] == (
        "corpo-rl pairs build labels.jsonl --problems problems.jsonl --other math.jsonl "
        "--train 60 --in-domain 10 --ood 8 --other-domain 6 --out pairs"
    )
    paths = {path.name: path for path in files if isinstance(path, Path)}
    assert {one["file"]: one["sha256"] for one in numbers["inputs"]} == {
        name: sha256(path.read_bytes()).hexdigest() for name, path in paths.items()
    }
    assert "1 could not be judged (missing_module)" in (out / "README.md").read_text()


def test_the_command_of_the_card_makes_the_same_bytes(files, tmp_path):
    outs = [tmp_path / name for name in ("a", "b", "c")]
    for out, seed, hash_seed in zip(outs, (1, 1, 2), ("0", "77", "0"), strict=True):
        result = run(*files, "--out", out, *SIZES, "--seed", seed, "--allow-unknown", PYTHONHASHSEED=hash_seed)
        assert result.returncode == 0
    for name in ("pairs.jsonl", "numbers.json", "README.md"):
        first, second, other_seed = ((out / name).read_bytes() for out in outs)
        assert first == second != other_seed

    command = json.loads((outs[0] / "numbers.json").read_text())["command"].split()
    assert command[:3] == ["corpo-rl", "pairs", "build"]
    again = subprocess.run(
        [sys.executable, "-m", "corpo_rl", *command[1:]], cwd=tmp_path, capture_output=True, check=False
    )
    assert again.returncode == 0
    assert (tmp_path / "pairs" / "pairs.jsonl").read_bytes() == (outs[0] / "pairs.jsonl").read_bytes()


def test_json_is_the_figures(files, tmp_path):
    result = run(*files, "--out", tmp_path / "set", *SIZES, "--json")
    assert json.loads(result.stdout) == json.loads((tmp_path / "set" / "numbers.json").read_text())


def test_a_split_that_falls_short_is_said(files, tmp_path):
    result = run(*files[:3], "--out", tmp_path / "set")
    assert result.returncode == 0
    assert "other_domain: 0 of 157 pairs, since no answers of another domain were given." in result.stdout
    assert "train: " in result.stdout
    assert " of 4,890 pairs, since the " in result.stdout


def test_math_can_be_the_domain_trained_on(files, tmp_path):
    labels, _, problems, _, math = files
    result = run(
        math, "--domain", "math", "--other", labels, "--other-problems", problems, "--other-name", "code",
        "--out", tmp_path / "set", "--train", 10, "--in-domain", 4, "--ood", 2, "--other-domain", 20,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    items = read_pairs(tmp_path / "set" / "pairs.jsonl")
    assert {item.domain for item in items if item.split == "other_domain"} == {"code"}
    assert {item.domain for item in items if item.split == "train"} == {"math"}


NOTHING = ["--train", "0", "--in-domain", "0", "--ood", "0", "--other-domain", "0"]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda files: [*files, "--train", "-1"], 2, "Invalid value for '--train'"),
        (lambda files: [*files, "--held-out", "1"], 2, "Invalid value for '--held-out'"),
        (lambda files: [*files, "--domain", "math"], 2, "error: --domain and --other-name: expected two different"),
        (lambda files: [*files, "--domain", " "], 2, "error: --domain and --other-name: expected two different"),
        (lambda files: [*files, "--other-problems", files[2]], 2, "a problems file is for labels, and there are none"),
        (lambda files: [*files[:3], "--other-problems", files[2]], 2, "error: --other-problems is for the labels of"),
        (lambda files: files[:1], 2, "labels name their problems by id only; give the problems file too"),
        (lambda files: [*files, *NOTHING], 2, "error: sizes: expected one above 0, found none"),
        (lambda files: [*files, "--max-chars", "20"], 1, "none with a pair of at most 20 characters"),
        (lambda files: [*files[:4], files[2]], 2, "problems.jsonl: labels name their problems by id only"),
    ],
)
def test_wrong_calls_are_one_line_and_leave_nothing(files, tmp_path, change, code, message):
    result = run(*change(files), "--out", tmp_path / "set")
    assert message in result.stderr
    assert (result.returncode, result.stdout) == (code, "")
    if code == 1 or message.startswith("error"):
        assert result.stderr.count("\n") == 1
    assert not (tmp_path / "set").exists()


def test_labels_of_unknown_problems(files, tmp_path):
    with files[0].open("a") as file:
        file.write(json.dumps(label("made/99", 0, "    return 1", True)) + "\n")
    result = run(*files, "--out", tmp_path / "set", *SIZES)
    assert result.returncode == 1
    assert result.stderr.startswith("error: 1 labels are of problems that are not in the problems files, the first of ")
    result = run(*files, "--out", tmp_path / "set", *SIZES, "--allow-unknown")
    assert result.returncode == 0
    assert "1 to unknown problems" in result.stdout


def test_labels_of_one_kind_make_no_pairs(files, tmp_path):
    rows = [json.loads(line) for line in files[0].read_text().splitlines()]
    wrong = [{**row, "correct": False, "status": "wrong"} for row in rows]
    result = run(write(tmp_path / "wrong.jsonl", wrong), *files[1:], "--out", tmp_path / "set")
    assert result.returncode == 1
    assert "no pair can be made: of 20 problems none has both a right and a wrong answer" in result.stderr
    unjudged = [{**row, "correct": None, "status": "not_judged"} for row in rows]
    result = run(write(tmp_path / "unjudged.jsonl", unjudged), *files[1:], "--out", tmp_path / "set")
    assert result.returncode == 1
    assert "no label says right or wrong: 0 are of unknown problems, 241 could not be judged" in result.stderr


def test_a_set_that_exists_is_refused_before_the_work(files, tmp_path):
    out = tmp_path / "set"
    assert run(*files, "--out", out, *SIZES).returncode == 0
    (tmp_path / "labels.jsonl").write_text("broken")
    result = run(*files, "--out", out, *SIZES)
    assert (result.returncode, result.stderr) == (
        2,
        f"error: {out}: this folder exists; name another or replace it with --force\n",
    )
    result = run(*files, "--out", out, *SIZES, "--force")
    assert result.returncode == 1, "broken input leaves the old set"
    assert read_pairs(out / "pairs.jsonl")


def test_help_fits_80_columns():
    shown = run("--help")
    assert shown.returncode == 0
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """CodeT's samples with labels that were made of them outside this project, as a labels file."""
    if not all(path.is_file() for path in PUBLISHED):
        pytest.skip("the published problems, samples and answers are not beside this checkout")
    from corpo_rl.pairs.candidates import read_candidates
    from corpo_rl.pairs.problems import read_problems

    problems = {problem.problem_id: problem for problem in read_problems(PUBLISHED[0])}
    found = read_candidates(
        [PUBLISHED[1]], problems=tuple(problems.values()), source="codegen-16B", allow_unknown=False
    )
    with PUBLISHED[2].open() as file:
        passed = {(row["task_id"], str(row["sample"])): row["pass"] for row in map(json.loads, file)}
    path = tmp_path_factory.mktemp("published") / "labels.jsonl"
    rows = []
    for one in found.candidates:
        text, _ = answer_text(problems[one.problem_id], one)
        correct = passed[one.problem_id, one.candidate_id]
        rows.append(label(one.problem_id, one.candidate_id, text, correct, source=one.source))
    return write(path, rows)


def test_papers_sizes_from_published_answers(published, tmp_path):
    out = tmp_path / "set"
    result = run(published, "--problems", PUBLISHED[0], "--other", PUBLISHED[3], "--out", out)
    assert result.returncode == 0, result.stderr
    items = read_pairs(out / "pairs.jsonl")
    splits = {split: [item for item in items if item.split == split] for split in ("train", "in_domain", "ood")}
    splits["other_domain"] = [item for item in items if item.split == "other_domain"]
    assert {split: len(found) for split, found in splits.items()} == {
        "train": 4890, "in_domain": 196, "ood": 98, "other_domain": 157,
    }  # fmt: skip

    # no problem crosses splits, nor one that is nearly the same
    texts = sorted({item.problem for item in items})
    cluster_of = dict(zip(texts, cluster_problems(texts).cluster_of, strict=True))
    split_of = {}
    for item in items:
        for key in (normalised(item.problem), cluster_of[item.problem]):
            assert split_of.setdefault(key, item.split) == item.split

    n_problems = {split: len({item.problem for item in found}) for split, found in splits.items()}
    assert n_problems["train"] >= 80
    assert n_problems["in_domain"] >= 18
    assert n_problems["ood"] >= 12
    assert n_problems["other_domain"] == 157
    for split, found in splits.items():
        if split == "ood":
            assert Counter(item.label_a for item in found) == {0: 49, 1: 49}
            # the problem itself tells nothing
            by_problem = Counter()
            for item in found:
                by_problem[item.problem] += 2 * item.label_a - 1
            assert set(by_problem.values()) == {0}
            continue
        n_a = sum(item.label_a for item in found)
        assert abs(2 * n_a - len(found)) <= 1
        signs = [
            (len(item.answer_a) > len(item.answer_b)) - (len(item.answer_a) < len(item.answer_b)) for item in found
        ]
        assert abs(sum(sign * (2 * item.label_a - 1) for sign, item in zip(signs, found, strict=True))) <= 1
    uses = Counter((item.problem, text) for item in items for text in (item.answer_a, item.answer_b))
    assert max(uses.values()) <= 10
