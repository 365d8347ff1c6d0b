"""Problems in our own form, and what holds for files in any form."""

import gzip
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.problems import FORMS, read_problems, read_usable_problems
from corpo_rl.records import CallTests, FinalAnswer, FunctionTests, Limits, ProgramTests
from corpo_rl.sandbox.judge import Judge

from .problem_rows import apps, contest, humaneval, mbpp, only, own, run, written

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
HUMANEVAL = DATA / "humaneval" / "HumanEval.jsonl.gz"
MBPP = DATA / "codet" / "mbpp_sanitized_for_code_generation.jsonl"
GSM8K = DATA / "gsm8k" / "test.jsonl"


def test_our_own_form(tmp_path):
    source = "assert f(1) == 2"
    assert only(tmp_path, own({"entry_point": "f", "source": source}, prompt="import re\ndef f(x):\n")).tests == (
        FunctionTests("f", source, "import re")
    )
    assert only(
        tmp_path, own({"entry_point": "f", "source": source, "preamble": "y = 1"}, prompt="def f(x):\n")
    ).tests == (FunctionTests("f", source, "y = 1"))
    assert only(tmp_path, own({"entry_point": "f", "calls": [{"args": [1, None], "result": {"a": [True]}}]})).tests == (
        CallTests("f", (("[1, null]", '{"a": [true]}'),))
    )
    assert only(tmp_path, own({"cases": [{"input": "", "output": "1"}], "time_limit": 2})).tests == (
        ProgramTests((("", "1"),), 2.0)
    )
    problem = only(tmp_path, own({"answer": "7"}, prompt="x", reference="A: 7"))
    assert (problem.tests, problem.prompt, problem.reference) == (FinalAnswer("7"), "x", "A: 7")


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ({}, r"p.jsonl:1: a problem without tests: expected {entry_point, source}, .*, found {}"),
        ([1], r"p.jsonl:1: tests: expected {entry_point, source}, .*, found \[1\]"),
        ({"answer": "1", "cases": []}, "p.jsonl:1: tests: expected .*, found {answer, cases}"),
        ({"entry_point": "f", "source": "assert g(1)"}, "p.jsonl:1: tests: source: expected calls of 'f', found none"),
        ({"entry_point": "f", "source": "f(1)"}, "tests: source: a problem without tests: expected assert statements"),
        ({"entry_point": "f", "source": "assert f("}, "tests: source: expected Python code"),
        (
            {"entry_point": "f", "source": "assert f(1)", "preamble": "def f(): 0"},
            "preamble: defines 'f', which is the",
        ),
        ({"entry_point": "f", "source": "assert f(1)", "preamble": "def"}, "preamble: expected Python code"),
        ({"entry_point": "f", "calls": []}, "tests: a problem without tests: expected some calls, found an empty list"),
        ({"entry_point": "f", "calls": [{"args": 1}]}, "tests: call 0: args: expected a list, found 1"),
        ({"entry_point": "f", "calls": [{"args": []}]}, r"tests: call 0: no field 'result' \(fields: args\)"),
        ({"cases": []}, "tests: a problem without tests: expected some cases, found an empty list"),
        ({"cases": [1]}, "tests: cases 0: expected an object, found 1"),
        ({"cases": [{"input": "1"}]}, r"tests: case 0: no field 'output' \(fields: input\)"),
        ({"cases": [{"input": "1", "output": 2}]}, "tests: case 0: output: expected text, found 2"),
        (
            {"cases": [{"input": "1", "output": "2"}], "time_limit": 0},
            "tests: time_limit: expected seconds, more than 0",
        ),
    ],
)
def test_our_own_form_broken(tmp_path, tests, message):
    with pytest.raises(DataError, match=message):
        only(tmp_path, own(tests))


def test_files_that_are_refused_whole(tmp_path):
    path = tmp_path / "p.jsonl"
    with pytest.raises(DataError, match=r"p.jsonl:2: problem id 'Demo/0' is that of .*p.jsonl:1 too; make ids unique"):
        read_usable_problems(written(path, humaneval(), humaneval()))
    with pytest.raises(
        DataError, match=r"p.jsonl:2: expected a problem in the form 'humaneval' as in .*p.jsonl:1, found"
    ):
        read_usable_problems(written(path, humaneval(), mbpp()))
    with pytest.raises(DataError, match=r"p.jsonl: expected one problem a line, found no row"):
        read_usable_problems(written(path))
    with pytest.raises(UsageError, match=r"form: expected one of program, humaneval, .*, found 'leetcode'"):
        read_problems(written(path, humaneval()), form="leetcode")
    path.write_text("{")
    with pytest.raises(DataError, match=r"p.jsonl:1: expected a JSON object, found broken JSON"):
        read_usable_problems(path)


def test_problems_that_cannot_be_judged_are_left_out_when_asked(tmp_path):
    path = written(tmp_path / "p.jsonl", apps(), apps(problem_id=8, input_output=""), apps(problem_id=9))
    read = read_usable_problems(path)
    assert [problem.problem_id for problem in read.problems] == ["7", "9"]
    (reason,) = read.left_out
    assert reason.startswith(f"{path}:2: a problem without tests")
    with pytest.raises(DataError, match=r"p.jsonl:2: a problem without tests"):
        read_problems(path)


@pytest.mark.parametrize("row", [apps(), contest(), mbpp(), humaneval(), own({"cases": [{"input": "", "output": ""}]})])
def test_a_row_may_name_its_split(tmp_path, row):
    assert only(tmp_path, row).split is None
    assert only(tmp_path, {**row, "split": ""}).split is None
    assert only(tmp_path, {**row, "split": "ood"}).split == "ood"
    with pytest.raises(DataError, match=r"p.jsonl:1: .*split.*found 3"):
        only(tmp_path, {**row, "split": 3})


def test_the_form_can_be_given(tmp_path):
    both = {**apps(), "answer": "42"}
    assert isinstance(only(tmp_path, both).tests, ProgramTests)
    assert only(tmp_path, both, form="math").tests == FinalAnswer("42")


@pytest.mark.parametrize(
    "rows", [[apps(), apps(problem_id=8)], [contest()], [mbpp()]], ids=["apps", "contests", "mbpp"]
)
def test_containers_hold_the_same(tmp_path, rows):
    expected = read_problems(written(tmp_path / "p.jsonl", *rows))
    (tmp_path / "p.json").write_text("\n " + json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress((tmp_path / "p.jsonl").read_bytes()))
    for name in ("p.json", "p.parquet", "p.jsonl.gz"):
        assert read_problems(tmp_path / name) == expected, name


def test_places_in_other_containers(tmp_path):
    rows = [apps(), apps(problem_id=8, input_output="")]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    for name in ("p.json", "p.parquet"):
        with pytest.raises(DataError, match=rf"{name}: row 1: a problem without tests"):
            read_problems(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.json", b"[1]", "p.json: row 0: expected a JSON object, found 1"),
        ("p.json", b"[\n{]", r"p.json:2: expected a JSON array, found broken JSON"),
        ("p.json", b"[\xff]", "p.json: expected UTF-8 text"),
        ("p.json", b"[" * 99_999, "p.json: expected a JSON array, found one nested too deep"),
        ("p.json", b'{"question": "?", "answer": "1\n"}', "p.json:1: expected a JSON object, found broken JSON"),
        ("p.parquet", b"PAR1", "p.parquet: could not be read as parquet"),
        (
            "p.jsonl.gz",
            gzip.compress(b"{}" * 99, mtime=0)[:-9],
            "could not be read .*; is the compressed file complete",
        ),
        ("p.jsonl.gz", b"\x1f\x8bzz", r"p.jsonl.gz: could not be read \("),
    ],
)
def test_broken_containers(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_problems(tmp_path / name)


@pytest.mark.parametrize("name", ["p.json", "p.parquet", "p.jsonl"])
def test_missing_files(tmp_path, name):
    with pytest.raises(DataError, match=rf"{name}: could not be read"):
        read_problems(tmp_path / name)


def test_the_documents_examples_are_read_and_show_every_form(tmp_path):
    text = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)
    kinds = []
    for number, block in enumerate(blocks):
        (problem,) = read_problems(written(tmp_path / f"{number}.jsonl", json.loads(block)))
        kinds.append(type(problem.tests))
    # four kinds of our own form, then humaneval, mbpp, apps, code_contests, math
    own_kinds = [FunctionTests, CallTests, ProgramTests, FinalAnswer]
    assert kinds == [*own_kinds, FunctionTests, FunctionTests, ProgramTests, ProgramTests, FinalAnswer]
    assert all(f"**`{form}`**" in text for form in FORMS if form != "program")


@pytest.mark.skipif(not HUMANEVAL.is_file(), reason="HumanEval is not beside this checkout")
def test_published_humaneval():
    problems = read_problems(HUMANEVAL)
    assert len(problems) == 164
    assert all(problem.tests.entry_point not in run(problem.tests.preamble) for problem in problems)
    with_helpers = [problem.problem_id for problem in problems if "def " in problem.tests.preamble]
    assert with_helpers == ["HumanEval/10", "HumanEval/32", "HumanEval/38", "HumanEval/50"]


@pytest.mark.skipif(not MBPP.is_file(), reason="CodeT's MBPP is not beside this checkout")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="programs are only run under bubblewrap")
def test_published_mbpp_passes_its_own_tests():
    problems = read_problems(MBPP)
    assert len(problems) == 427
    assert sum(problem.prompt == "" for problem in problems) == 11
    with Judge(Limits(seconds=30)) as judge:
        verdicts = {one.problem_id: judge.judge(one.tests, one.reference) for one in problems}
    failed = {problem_id: verdict.detail for problem_id, verdict in verdicts.items() if verdict.status != "ok"}
    # these return re.Match, which does not leave the candidate's process
    assert set(failed) <= {"MbppEval/737", "MbppEval/787", "MbppEval/794"}, failed


@pytest.mark.skipif(not GSM8K.is_file(), reason="GSM8K is not beside this checkout")
def test_published_gsm8k():
    problems = read_problems(GSM8K)
    assert len(problems) == 1319
    assert problems[0].tests == FinalAnswer("18")
    assert not any("<<" in problem.reference for problem in problems)
    assert all(re.fullmatch(r"-?[\d,]+", problem.tests.answer) for problem in problems)
