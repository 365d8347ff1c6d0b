import json

import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.candidates import read_candidates
from corpo_rl.pairs.cut import answer_text, program_of
from corpo_rl.pairs.sampling import SampledSet, request_seed, request_text, sample_candidates
from corpo_rl.records import CallTests, FinalAnswer, FunctionTests, Problem, ProgramTests, Sample, SamplingSettings

SETTINGS = SamplingSettings(max_new_tokens=64, temperature=0.8)
DOUBLE = Problem(
    "double", "", FunctionTests("double", "assert double(2) == 4", preamble="import math"), prompt="def double(x):\n"
)
SUM = Problem("sum", "Add two numbers.", ProgramTests((("1 2", "3"),)))
HALF = Problem("half", "Halve it.", CallTests("half", (("[4]", "2"),)))
MATH = Problem("math", "What is 2+2?", FinalAnswer("4"))
PROBLEMS = (DOUBLE, SUM, HALF, MATH)


class Policy:
    """Answers with the request's key; fails for good after some answers."""

    def __init__(self, fail_after=None):
        self.asked, self.fail_after = [], fail_after

    def stream(self, requests, settings):
        for number, request in enumerate(reversed(requests)):
            if number == self.fail_after:
                raise DataError("the endpoint is gone")
            self.asked.append(request)
            yield Sample(request.key, f"answer {request.key}", "stop")


def run(policy, out, *, n=3, problems=PROBLEMS, **options):
    options = {"settings": SETTINGS, "source": "m", "seed": 0, "inputs": {"problems": "abc"}, **options}
    return sample_candidates(problems, policy.stream, n=n, out=out, **options)


def rows(out):
    return [json.loads(line) for line in out.read_text().splitlines()]


def keys(out):
    return sorted((row["problem_id"], row["candidate_id"]) for row in rows(out))


EVERY = sorted((problem.problem_id, str(number)) for problem in PROBLEMS for number in range(3))


def test_every_problem_gets_n_answers_that_the_reader_takes(tmp_path):
    out = tmp_path / "c.jsonl"
    sampled = run(Policy(), out)
    assert sampled == SampledSet(n_wanted=12, n_done=12, n_resumed=0, n_empty=0, n_cut=0, n_repeated=0)
    assert keys(out) == EVERY
    read = read_candidates([out], problems=PROBLEMS).candidates
    assert {(one.problem_id, one.candidate_id, one.source, one.continues_prompt) for one in read} == {
        (problem, number, "m", False) for problem, number in EVERY
    }


def test_each_request_has_a_seed_of_its_own_that_stays(tmp_path):
    policy = Policy()
    run(policy, tmp_path / "a.jsonl")
    seeds = {request.key: request.seed for request in policy.asked}
    assert len(set(seeds.values())) == 12
    assert seeds["sum/1"] == request_seed(0, "sum", 1)
    assert all(0 <= seed < 2**31 for seed in seeds.values())
    assert request_seed(1, "sum", 1) != request_seed(0, "sum", 1)


def test_what_came_before_an_error_is_kept_and_the_same_call_goes_on(tmp_path):
    out = tmp_path / "c.jsonl"
    with pytest.raises(DataError, match="the endpoint is gone"):
        run(Policy(fail_after=5), out)
    assert len(rows(out)) == 5
    policy = Policy()
    sampled = run(policy, out)
    assert (sampled.n_done, sampled.n_resumed, len(policy.asked)) == (12, 5, 7)
    assert keys(out) == EVERY


def test_a_torn_last_line_is_sampled_again(tmp_path):
    out = tmp_path / "c.jsonl"
    run(Policy(), out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-9])
    policy = Policy()
    run(policy, out)
    assert len(policy.asked) == 1
    assert keys(out) == EVERY


def test_a_budget_stops_and_a_larger_n_adds(tmp_path):
    out = tmp_path / "c.jsonl"
    assert run(Policy(), out, n=2, most=3).n_done == 3
    assert run(Policy(), out, n=2).n_done == 8
    policy = Policy()
    assert run(policy, out, n=3).n_done == 12
    assert len(policy.asked) == 4
    assert keys(out) == EVERY


def test_other_settings_are_refused_by_name(tmp_path):
    out = tmp_path / "c.jsonl"
    run(Policy(), out)
    for change, named in (
        ({"seed": 1}, "begun with seed 0, not 1"),
        ({"settings": SamplingSettings(max_new_tokens=64, temperature=1.0)}, r"begun with temperature 0\.8, not 1\.0"),
        ({"source": "other"}, "begun with source 'm', not 'other'"),
        ({"inputs": {"problems": "xyz"}}, "begun with problems 'abc', not 'xyz'"),
    ):
        with pytest.raises(UsageError, match=named):
            run(Policy(), out, **change)
    policy = Policy()
    run(policy, out, seed=1, force=True)
    assert len(policy.asked) == 12


def test_files_of_others_are_left_alone(tmp_path):
    out = tmp_path / "c.jsonl"
    out.write_text('{"mine": 1}\n')
    with pytest.raises(UsageError, match="this file exists"):
        run(Policy(), out)
    assert out.read_text() == '{"mine": 1}\n'
    out.unlink()
    run(Policy(), out)
    out.write_text('{"mine": 1}\n')
    with pytest.raises(DataError, match=r"c\.jsonl:1: expected a sampled answer"):
        run(Policy(), out)
    with pytest.raises(UsageError, match="n: expected at least 1, found 0"):
        run(Policy(), out, n=0)
    with pytest.raises(UsageError, match="n 3 at temperature 0: all answers would be the same"):
        run(Policy(), out, settings=SamplingSettings(max_new_tokens=64, temperature=0.0))


@pytest.mark.parametrize("row", ["[]", "5", "{", '{"problem_id": "sum", "candidate_id": "0", "text": 5}', ""])
def test_a_broken_row_is_named_with_its_line(tmp_path, row):
    out = tmp_path / "c.jsonl"
    run(Policy(), out)
    with out.open("a") as file:
        file.write(row + "\n")
    before = out.read_bytes()
    with pytest.raises(DataError, match=r"c\.jsonl:13: expected a sampled answer"):
        run(Policy(), out, n=4)
    assert out.read_bytes() == before


@pytest.mark.parametrize("settings", ["", "[]", '{"source"'])
def test_broken_settings_are_named(tmp_path, settings):
    out = tmp_path / "c.jsonl"
    run(Policy(), out)
    (tmp_path / "c.jsonl.settings.json").write_text(settings)
    with pytest.raises(DataError, match=r"c\.jsonl\.settings\.json: .*begin anew with --force"):
        run(Policy(), out)
    assert run(Policy(), out, force=True).n_done == 12
    assert keys(out) == EVERY


def test_two_processes_do_not_write_one_file(tmp_path):
    out = tmp_path / "c.jsonl"

    class Greedy(Policy):
        def stream(self, requests, settings):
            with pytest.raises(UsageError, match="another process is sampling into it"):
                run(Policy(), out)
            yield from super().stream(requests, settings)

    assert run(Greedy(), out).n_done == 12
    assert keys(out) == EVERY
    assert run(Policy(), out).n_resumed == 12


def test_a_policy_with_a_budget_of_its_own_ends_early_and_goes_on(tmp_path):
    out = tmp_path / "c.jsonl"

    class Short(Policy):
        def stream(self, requests, settings):
            yield from list(super().stream(requests, settings))[:5]

    assert [run(Short(), out).n_done for _ in range(3)] == [5, 10, 12]
    assert keys(out) == EVERY


def test_a_place_that_cannot_be_written_is_named_and_new_folders_are_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/c\.jsonl: could not be written"):
        run(Policy(), tmp_path / "file" / "c.jsonl")
    assert run(Policy(), tmp_path / "new" / "c.jsonl").n_done == 12


def test_progress_begins_with_what_earlier_calls_did(tmp_path):
    out, seen = tmp_path / "c.jsonl", []
    run(Policy(), out, most=10)
    run(Policy(), out, on_sample=lambda done, total: seen.append((done, total)))
    assert seen == [(10, 12), (11, 12), (12, 12)]


def test_answers_that_repeat_another_of_their_problem_are_counted(tmp_path):
    class Same:
        def stream(self, requests, settings):
            for request in requests:
                problem, number = request.key.rsplit("/", 1)
                # two of three alike; the same text for another problem is no repeat; empty ones are counted as empty
                text = "" if problem == "half" else "x" if number != "2" else "y"
                yield Sample(request.key, text, "stop")

    sampled = run(Same(), tmp_path / "c.jsonl")
    assert (sampled.n_repeated, sampled.n_empty) == (3, 3)


def test_cut_and_empty_answers_are_counted_over_all_calls(tmp_path):
    class Poor:
        def stream(self, requests, settings):
            for number, request in enumerate(requests):
                yield Sample(request.key, " " if number % 2 else "x", "length" if number < 2 else "stop")

    out = tmp_path / "c.jsonl"
    run(Poor(), out, most=6)
    sampled = run(Poor(), out)
    assert (sampled.n_empty, sampled.n_cut) == (6, 4)
    # of fewer answers only those count
    assert run(Poor(), out, n=1).n_done == 4
    assert run(Poor(), out, n=1).n_empty == sum(
        not row["text"].strip() for row in rows(out) if row["candidate_id"] == "0"
    )


def test_every_kind_of_problem_is_asked_for_its_form_of_answer():
    assert "```python\ndef double(x):\n```" in request_text(DOUBLE)
    assert "standard input" in request_text(SUM)
    assert "class Solution named half" in request_text(HALF)
    assert request_text(MATH).endswith("\\boxed{}.")


def test_an_answer_in_prose_becomes_the_program(tmp_path):
    out = tmp_path / "c.jsonl"
    prose = "Sure!\n```python\ndef double(x):\n    return 2 * x\n```\nIt doubles."

    class Chat:
        def stream(self, requests, settings):
            yield from (Sample(request.key, prose, "stop") for request in requests)

    run(Chat(), out, n=1, problems=[DOUBLE])
    [candidate] = read_candidates([out], problems=[DOUBLE]).candidates
    text, continues = answer_text(DOUBLE, candidate)
    assert program_of(DOUBLE, text, continues_prompt=continues) == "import math\ndef double(x):\n    return 2 * x\n"
