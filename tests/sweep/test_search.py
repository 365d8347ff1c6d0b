import json

import pytest

from corpo_rl.experiment.settings import MINI
from corpo_rl.sweep.plan import Plan
from corpo_rl.sweep.search import HopelessError, run_one, search, stage
from corpo_rl.sweep.space import Dimension
from corpo_rl.sweep.study import FAILED, FINISHED, RUNNING, Study
from corpo_rl.sweep.trial import Outcome, Work

pytest.importorskip("optuna", reason="needs corpo-rl[sweep]")

RATES = Dimension("learning_rate", (1e-4, 1e-3, 1e-2))


class Scripted:
    """An engine that gives back what it was told, `slots` at a time, the last one submitted first."""

    def __init__(self, outcome, slots=1):
        self.slots = slots
        self.submitted = []
        self._outcome = outcome
        self._running = []

    def submit(self, work):
        self.submitted.append(work)
        self._running.append(work)
        assert len(self._running) <= self.slots

    def finished(self, *, wait_seconds):
        work = self._running.pop()
        return [(work, self._outcome(work))]


def by_rate(work):
    return Outcome(float(work.params["learning_rate"]), None)


@pytest.fixture
def study(tmp_path):
    plan = Plan(MINI, (RATES,), (0,), "pass@1", "maximize", "in_domain", "random", 0, "rollouts", 0.2)
    study = Study(tmp_path, plan)
    yield study
    study.close()


def test_a_repeated_setting_takes_over_the_outcome(tmp_path, study):
    engine = Scripted(by_rate)
    trials = search(tmp_path, study, n_trials=10, engine=engine)
    assert len(trials) == 10
    rates = [work.params["learning_rate"] for work in engine.submitted]
    assert sorted(rates) == [1e-4, 1e-3, 1e-2], "three settings, each trained once"
    for trial in trials:
        assert (trial.state, trial.value) == (FINISHED, trial.params["learning_rate"])
        first = min(one.number for one in trials if one.params == trial.params)
        assert trial.same_as == (None if trial.number == first else first)


def test_a_failure_is_taken_over_as_one(tmp_path, study):
    def bad_rate(work):
        return Outcome(None, "diverged") if work.params["learning_rate"] == 1e-2 else by_rate(work)

    trials = search(tmp_path, study, n_trials=10, engine=Scripted(bad_rate))
    failed = [trial for trial in trials if trial.params["learning_rate"] == 1e-2]
    assert len(failed) > 1
    assert all((trial.state, trial.value, trial.reason) == (FAILED, None, "diverged") for trial in failed)


def test_what_was_running_is_run_again_first_and_finished_is_left(tmp_path, study):
    finished, interrupted = study.add(), study.add()
    study.finish(finished.number, 0.5)
    assert finished.params != interrupted.params, "choose another sampler seed"
    engine = Scripted(by_rate)
    trials = search(tmp_path, study, n_trials=3, engine=engine)
    assert engine.submitted[0] == Work("trial", 1, interrupted.params)
    assert trials[0].value == 0.5
    assert search(tmp_path, study, n_trials=3, engine=engine) == trials
    assert len(search(tmp_path, study, n_trials=5, engine=engine)) == 5, "more trials may be asked for later"


def test_several_at_a_time(tmp_path, study):
    engine = Scripted(by_rate, slots=3)
    seen = []
    trials = search(tmp_path, study, n_trials=6, engine=engine, tell=lambda status: seen.append(len(status.stages)))
    assert max(seen) > 1
    assert [trial.state for trial in trials] == [FINISHED] * 6
    assert all(trial.value == trial.params["learning_rate"] for trial in trials)


def test_when_the_first_trials_all_fail_the_search_ends(tmp_path, study):
    engine = Scripted(lambda work: Outcome(None, "no such device"))
    with pytest.raises(HopelessError, match="the first 3 trials all failed, the last one: no such device"):
        search(tmp_path, study, n_trials=50, engine=engine)
    assert len(engine.submitted) == 3
    assert RUNNING not in {trial.state for trial in study.trials()}


def test_an_error_ends_the_search_and_the_trial_stays_running(tmp_path, study):
    def broken(work):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        search(tmp_path, study, n_trials=3, engine=Scripted(broken))
    assert [trial.state for trial in study.trials()] == [RUNNING]


def test_something_run_by_itself_tells_its_stage(tmp_path):
    base = tmp_path / "start" / "base"
    base.mkdir(parents=True)
    (base / "status.json").write_text(json.dumps({"stage": "evaluate", "done": 1, "total": 3}))
    told = []
    run_one(tmp_path, Work("start"), engine=Scripted(lambda work: Outcome(None, None)), tell=told.append)
    assert told == ["evaluate 1/3"]
    assert stage(tmp_path / "nowhere") == "starting"
