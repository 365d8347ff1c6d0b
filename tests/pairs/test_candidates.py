import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import DataError
from corpo_rl.pairs.candidates import Candidates, read_candidates
from corpo_rl.pairs.problems import read_problems
from corpo_rl.records import Candidate, FinalAnswer, FunctionTests, Problem

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SAMPLES = DATA / "codet" / "HumanEval_codegen16B_num100_code_solution.jsonl"
PROBLEMS = [DATA / "humaneval" / "HumanEval.jsonl.gz", DATA / "codet" / "HumanEval_for_code_generation.jsonl"]
REFLEXION = DATA / "reflexion" / "humaneval_gpt-4_logging.jsonl"
GSM8K = DATA / "gsm8k" / "example_model_solutions.jsonl"


def code_problem(problem_id, prompt):
    return Problem(problem_id, prompt, FunctionTests("f", "assert f(1)"), prompt=prompt)


DOUBLE = code_problem("D/0", 'def f(x):\n    """Twice x.\n    >>> f(2)\n    4\n    """\n')
HALF = code_problem("D/1", 'import math\ndef f(x, y):\n    """Half of x."""\n')
SUM = Problem("3", "What is 1 + 1, in total?", FinalAnswer("2"))
ALL = [DOUBLE, HALF, SUM]


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(tmp_path, *rows, name="model-x.jsonl", **options):
    return read_candidates([written(tmp_path / name, *rows)], problems=options.pop("problems", ALL), **options)


def test_one_completion_a_row(tmp_path):
    found = read(
        tmp_path,
        {"task_id": "D/1", "completion": "    return x / 2"},
        {"task_id": "D/0", "completion": "    return 2 * x", "passed": True},
        {"task_id": "D/1", "completion": "    return 0"},
        {"task_id": 3, "completion": "A: 2"},
    )
    assert found == Candidates(
        (
            Candidate("D/1", "0", "    return x / 2", "model-x", continues_prompt=True),
            Candidate("D/0", "0", "    return 2 * x", "model-x", continues_prompt=True),
            Candidate("D/1", "1", "    return 0", "model-x", continues_prompt=True),
            # there is no prompt to continue
            Candidate("3", "0", "A: 2", "model-x", continues_prompt=False),
        )
    )


@pytest.mark.parametrize("field", ["solution", "code", "output", "response", "text"])
def test_whole_answers(tmp_path, field):
    found = read(tmp_path, {"task_id": "D/0", "prompt": "other words", field: "def f(x): 1"})
    assert found.candidates == (Candidate("D/0", "0", "def f(x): 1", "model-x", continues_prompt=False),)


@pytest.mark.parametrize(
    ("field", "continues"),
    [("samples", True), ("completions", True), ("completion", True), ("outputs", False), ("solutions", False)],
)
def test_lists_keep_their_numbers(tmp_path, field, continues):
    rows = [{"task_id": "D/0", field: ["a", "b"]}, {"task_id": "D/0", field: ["c"], "model": "other"}]
    found = read(tmp_path, *rows, {"task_id": "D/0", field: ["d"]})
    assert [(one.text, one.candidate_id, one.source) for one in found.candidates] == [
        ("a", "0", "model-x"),
        ("b", "1", "model-x"),
        ("c", "0", "other"),
        ("d", "2", "model-x"),
    ]
    assert {one.continues_prompt for one in found.candidates} == {continues}


def test_what_our_own_sampling_writes(tmp_path):
    row = {
        "problem_id": "D/0",
        "candidate_id": "7",
        "text": "    return 2 * x",
        "source": "org/model",
        "continues_prompt": True,
        "finish_reason": "stop",
        "seed": 3,
    }
    found = read(tmp_path, row, {**row, "candidate_id": 8, "continues_prompt": False}, source="ignored")
    assert found.candidates == (
        Candidate("D/0", "7", "    return 2 * x", "org/model", continues_prompt=True),
        Candidate("D/0", "8", "    return 2 * x", "org/model", continues_prompt=False),
    )


def test_source_is_the_rows_or_the_callers_or_the_files(tmp_path):
    rows = [{"task_id": "D/0", "code": "1", "model": "m"}, {"task_id": "D/0", "code": "2"}]
    assert [one.source for one in read(tmp_path, *rows, source="mine").candidates] == ["m", "mine"]
    assert [one.source for one in read(tmp_path, *rows, name="gpt-3.5.v2.jsonl").candidates] == ["m", "gpt-3.5.v2"]


def test_several_files_of_one_source_are_numbered_on(tmp_path):
    row = {"task_id": "D/0", "code": "1"}
    paths = [written(tmp_path / name, row) for name in ("a.jsonl", "b.jsonl")]
    found = read_candidates(paths, problems=ALL, source="m")
    assert [one.candidate_id for one in found.candidates] == ["0", "1"]
    assert [one.source for one in read_candidates(paths, problems=ALL).candidates] == ["a", "b"]


def test_problems_are_found_by_their_words(tmp_path):
    found = read(
        tmp_path,
        {"prompt": DOUBLE.prompt, "samples": ["a"]},
        {"question": "what is 1 + 1 in  total", "solution": "A: 2"},
        # the same code, without the examples in its docstring
        {"prompt": 'def f( x ):  # go\n    """ Twice x. """\n', "samples": ["b"]},
    )
    assert [(one.problem_id, one.text) for one in found.candidates] == [("D/0", "a"), ("3", "A: 2"), ("D/0", "b")]


def test_problems_of_one_signature_are_told_by_their_docstrings(tmp_path):
    one = code_problem("one", 'def f(s):\n    """ s is a string of "<" and ">".\n    >>> f("<")\n    """\n')
    other = code_problem("other", 'def f(s):\n    """ s is a string of "(" and ")".\n    >>> f("(")\n    """\n')
    rows = [
        {"prompt": f'def f(s):\n    """ s is a string of "{a}" and "{b}".\n    """\n', "samples": [a]}
        for a, b in ("()", "<>")
    ]
    found = read(tmp_path, *rows, problems=[one, other])
    assert [(one.problem_id, one.text) for one in found.candidates] == [("other", "("), ("one", "<")]
    twins = [code_problem("one", one.prompt), code_problem("two", one.prompt)]
    with pytest.raises(
        DataError, match=r"model-x.jsonl:1: this text is that of several problems \(one, two\); name one"
    ):
        read(tmp_path, rows[1], problems=twins)


def test_answers_of_nothing_are_counted_but_a_prompt_alone_is_a_program(tmp_path):
    found = read(
        tmp_path,
        {"task_id": "D/0", "solution": " \n"},
        {"task_id": "D/0", "solution": None},
        {"task_id": "D/0", "solution": "def f(x): 1"},
        {"task_id": "D/1", "completion": ""},
        {"task_id": "D/1", "completion": None},
    )
    assert found.n_empty == 3
    # the numbers are places in the file, whatever was dropped
    assert [(one.problem_id, one.candidate_id, one.text) for one in found.candidates] == [
        ("D/0", "2", "def f(x): 1"),
        ("D/1", "0", ""),
    ]


def test_gsm8ks_own_answers(tmp_path):
    row = {
        "question": SUM.text,
        "ground_truth": "A: 2",
        "small": {"is_correct": True, "solution": "1+1 = <<1+1=2>>2\nA: 2"},
        "large": {"is_correct": False, "solution": "A: 3"},
    }
    found = read(tmp_path, row)
    assert found == Candidates(
        (Candidate("3", "0", "1+1 = 2\nA: 2", "small"), Candidate("3", "0", "A: 3", "large")), n_marked=1
    )


def test_answers_to_other_problems(tmp_path):
    rows = [{"task_id": f"X/{number}", "samples": ["a", "b"]} for number in range(5)]
    rows += [{"prompt": "def g(): 1", "samples": ["a"]}, {"task_id": "D/0", "code": "1"}]
    with pytest.raises(
        DataError, match=r'model-x.jsonl: 11 answers are to problems .* the 3 given: "X/0", "X/1", "X/2" and 3 m'
    ):
        read(tmp_path, *rows)
    found = read(tmp_path, *rows, allow_unknown=True)
    assert (len(found.candidates), found.n_unknown) == (1, 11)
    with pytest.raises(DataError, match=r"model-x.jsonl: expected one answer or more, found none"):
        read(tmp_path, *rows[:3], allow_unknown=True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"task_id": "D/0"},
            "model-x.jsonl:2: expected an answer in one of the fields text, completion, .*, found task_id",
        ),
        (
            {"code": "1"},
            "model-x.jsonl:2: expected the answer's problem in one of the fields problem_id, .*, found code",
        ),
        ({"task_id": 1.5, "code": "1"}, "model-x.jsonl:2: task_id: expected text, found 1.5"),
        ({"task_id": "D/0", "code": 1}, "model-x.jsonl:2: code: expected text, found 1"),
        ({"task_id": "D/0", "code": False}, "model-x.jsonl:2: code: expected text, found false"),
        ({"task_id": "D/0", "samples": ["a", {}]}, r"model-x.jsonl:2: samples\[1\]: expected text, found {}"),
        ({"task_id": "D/0", "code": "\ud800"}, "model-x.jsonl:2: code: expected text, found half a surrogate pair"),
        ({"task_id": "D/0", "text": "a", "continues_prompt": 1}, "continues_prompt: expected true or false, found 1"),
        ({"task_id": "D/0", "code": "1", "model": 3}, "model-x.jsonl:2: model: expected text, found 3"),
        (
            {"task_id": "D/0", "code": "1", "candidate_id": "0"},
            "model-x.jsonl:2: code: candidate '0' of 'model-x' to 'D/0' is there already, from .*jsonl:1: code; make",
        ),
        (
            {"question": SUM.text, "m": {"is_correct": True, "solution": 4}},
            "model-x.jsonl:2: m: expected text, found 4",
        ),
    ],
)
def test_broken_rows(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, {"task_id": "D/0", "code": "1"}, row)


def test_broken_lines_and_parquet(tmp_path):
    path = written(tmp_path / "a.jsonl", {"task_id": "D/0", "code": "1"})
    path.write_text(path.read_text() + '{"task_id": "D/0", "co')
    with pytest.raises(DataError, match=r"a.jsonl:2: expected a JSON object, found broken JSON"):
        read_candidates([path], problems=ALL)
    rows = [{"task_id": "D/0", "completions": ["a", "b"]}, {"task_id": "D/1", "completions": ["c"]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = read_candidates([tmp_path / "a.parquet"], problems=ALL)
    assert [(one.problem_id, one.candidate_id, one.text) for one in found.candidates] == [
        ("D/0", "0", "a"),
        ("D/0", "1", "b"),
        ("D/1", "0", "c"),
    ]


@pytest.mark.skipif(not SAMPLES.is_file(), reason="CodeT's samples are not beside this checkout")
def test_published_samples_belong_to_humaneval_and_to_codets_version_of_it():
    first, second = (read_candidates([SAMPLES], problems=read_problems(path)) for path in PROBLEMS)
    assert first == second
    assert len(first.candidates) == 16_400
    assert set(Counter(one.problem_id for one in first.candidates).values()) == {100}
    # CodeT's own prompts are those of its samples, word for word: an independent way to match them
    id_of = {problem.prompt: problem.problem_id for problem in read_problems(PROBLEMS[1])}
    lines = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    expected = {
        (id_of[line["prompt"]], str(number), text) for line in lines for number, text in enumerate(line["samples"])
    }
    assert {(one.problem_id, one.candidate_id, one.text) for one in first.candidates} == expected


@pytest.mark.skipif(not REFLEXION.is_file(), reason="Reflexion's answers are not beside this checkout")
def test_published_whole_answers():
    found = read_candidates([REFLEXION], problems=read_problems(PROBLEMS[0]))
    assert (len(found.candidates), found.n_empty) == (164, 0)
    assert not any(one.continues_prompt for one in found.candidates)


@pytest.mark.skipif(not GSM8K.is_file(), reason="the published GSM8K answers are not beside this checkout")
def test_published_math_answers():
    problems = read_problems(GSM8K)
    found = read_candidates([GSM8K], problems=problems)
    assert len(found.candidates) == 4 * len(problems) == 5276
    assert found.n_marked > 5000
    assert sum("<<" in one.text for one in found.candidates) == 5  # marks that the model never closed
    assert Counter(one.source for one in found.candidates).keys() == {
        "6b_finetuning",
        "6b_verification",
        "175b_finetuning",
        "175b_verification",
    }
