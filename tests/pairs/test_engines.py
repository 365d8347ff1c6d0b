import sys
import threading
import time
from contextlib import closing

import pytest

from corpo_rl.errors import CorpoError, MissingExtraError
from corpo_rl.pairs import engines
from corpo_rl.pairs.engines import Judges, JudgingJob, judge_locally, judge_on_ray
from corpo_rl.records import OK, WRONG, FinalAnswer, FunctionTests, Limits, Verdict

TESTS = FunctionTests("f", "assert f() == 1")


class Scripted:
    """Judges that obey the answer's word, and remember who used and closed them."""

    def __init__(self):
        self.threads = set()
        self.n_at_once = 0
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def judge(self, tests, answer):
        assert not self.closed
        self.n_at_once += 1
        assert self.n_at_once == 1, "a judge judges one candidate at a time"
        self.threads.add(threading.current_thread().name)
        try:
            word = answer.split()[0]
            if word == "bug":
                raise ZeroDivisionError("a bug of the judge")
            if word == "unavailable":
                raise CorpoError("the sandbox does not start here")
            if word == "slow":
                time.sleep(0.05)
            return Verdict(OK if word == "right" else WRONG, 1, 1)
        finally:
            self.n_at_once -= 1


class Made:
    """Makes scripted judges, and keeps them."""

    def __init__(self):
        self.all = []

    def __call__(self):
        self.all.append(Scripted())
        return self.all[-1]


def jobs_of(*answers):
    return [JudgingJob(str(number), TESTS, answer) for number, answer in enumerate(answers)]


def test_every_job_has_its_own_verdict():
    answers = ["right" if number % 3 else "wrong" for number in range(100)]
    made = Made()
    found = list(judge_locally(jobs_of(*answers), new_judges=made, workers=3))
    assert {int(key): verdict.status for key, verdict in found} == {
        number: "ok" if number % 3 else "wrong" for number in range(100)
    }
    assert len(found) == 100
    assert len(made.all) == 3
    assert all(judges.closed for judges in made.all)


def test_workers_judge_side_by_side():
    made = Made()
    started = time.monotonic()
    list(judge_locally(jobs_of(*["slow"] * 40), new_judges=made, workers=8))
    assert time.monotonic() - started < 40 * 0.05 / 2  # 8 at a time: 0.25 s, one at a time: 2 s
    assert len(set().union(*(judges.threads for judges in made.all))) == 8


def test_jobs_are_read_as_they_are_needed():
    n_read = 0

    def endless():
        nonlocal n_read
        while True:
            n_read += 1
            yield JudgingJob(str(n_read), TESTS, "right")

    made = Made()
    with closing(judge_locally(endless(), new_judges=made, workers=2)) as coming:
        for number, _ in enumerate(coming, start=1):
            assert n_read <= number + 2 * engines._IN_FLIGHT
            if number == 200:
                break
    assert all(judges.closed for judges in made.all)


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [("bug", ZeroDivisionError, "a bug of the judge"), ("unavailable", CorpoError, "the sandbox does not start here")],
)
def test_an_error_of_a_judge_is_no_verdict(word, error, message):
    made = Made()
    found = []
    with pytest.raises(error, match=message):
        found.extend(judge_locally(jobs_of("right", word, "right"), new_judges=made, workers=1))
    assert all(judges.closed for judges in made.all)
    assert "1" not in dict(found)


def test_no_jobs_start_nothing():
    class Unused(Scripted):
        def judge(self, tests, answer):
            raise AssertionError

    assert list(judge_locally([], new_judges=Unused, workers=2)) == []


def test_judges_start_when_they_are_needed(monkeypatch):
    started = []

    class Judge:
        def __init__(self, *settings, **more):
            started.append((type(self).__name__, settings, more))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            started.append("closed")

        def judge(self, tests, answer):
            return Verdict(OK, 1, 1, detail=type(self).__name__)

    class FinalAnswerJudge(Judge):
        pass

    monkeypatch.setattr(engines, "Judge", Judge)
    monkeypatch.setattr(engines, "FinalAnswerJudge", FinalAnswerJudge)
    limits = Limits(seconds=9)
    with Judges(limits, python="python3") as judges:
        assert started == []
        assert judges.judge(FinalAnswer("1"), "1").detail == "FinalAnswerJudge"
        assert started == [("FinalAnswerJudge", (), {})]
        assert [judges.judge(TESTS, "").detail for _ in range(2)] == ["Judge", "Judge"]
        assert started[1:] == [("Judge", (limits,), {"python": "python3"})]
    assert started[2:] == ["closed", "closed"]


def test_without_ray_the_command_to_install_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"--engine ray needs .* run: pip install 'corpo-rl\[ray\]'"):
        list(judge_on_ray(jobs_of("right"), new_judges=Made()))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_where_nothing_answers_is_one_line_at_once(address):
    pytest.importorskip("ray")
    started = time.monotonic()
    with pytest.raises(CorpoError, match=rf"^--ray-address {address}: no Ray cluster answers there \(.*\)$"):
        list(judge_on_ray(jobs_of("right"), new_judges=Made(), address=address))
    assert time.monotonic() - started < 12
