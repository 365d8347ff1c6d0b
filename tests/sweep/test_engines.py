"""Engines with the work itself replaced; tests/sweep/test_real_runs.py has them train, on a local Ray too."""

import sys
from importlib.util import find_spec

import pytest

from corpo_rl.errors import CorpoError, MissingExtraError, UsageError
from corpo_rl.experiment.settings import MINI
from corpo_rl.sweep import engines
from corpo_rl.sweep.engines import _run_on_node, here, on_ray, ray_is_connected
from corpo_rl.sweep.plan import Plan
from corpo_rl.sweep.space import Dimension
from corpo_rl.sweep.trial import Outcome, StoppedError, Work

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs corpo-rl[ray]")

RATES = Dimension("learning_rate", (3e-4, 1e30))
PLAN = Plan(
    MINI, (Dimension("method", ("corpo",)), RATES), (0,), "pass@1", "maximize", "in_domain", "grid", 0, "rollouts", 0.2
)


def test_here_several_run_at_a_time_and_an_error_comes_out(tmp_path, monkeypatch):
    def scripted(out, plan, work, *, seed_jobs, keep_policies, stopped):
        if work.number == 2:
            raise CorpoError("broken")
        return Outcome(float(work.number), None)

    monkeypatch.setattr(engines, "run_work", scripted)
    with here(tmp_path, PLAN, slots=2, seed_jobs=1, keep_policies=False) as engine:
        for number in (0, 1):
            engine.submit(Work("trial", number))
        found = []
        while len(found) < 2:
            found += engine.finished(wait_seconds=5)
        assert sorted((work.number, outcome.value) for work, outcome in found) == [(0, 0.0), (1, 1.0)]
        engine.submit(Work("trial", 2))
        with pytest.raises(CorpoError, match="broken"):
            engine.finished(wait_seconds=5)


def test_here_what_still_runs_is_ended_with_the_engine(tmp_path, monkeypatch):
    ended = []

    def endless(out, plan, work, *, seed_jobs, keep_policies, stopped):
        while not stopped():
            pass
        ended.append(work.number)
        raise StoppedError

    monkeypatch.setattr(engines, "run_work", endless)
    with here(tmp_path, PLAN, slots=1, seed_jobs=1, keep_policies=False) as engine:
        engine.submit(Work("trial", 5))
        assert engine.finished(wait_seconds=0.01) == []
    assert ended == [5]


@pytest.mark.parametrize(("slots", "seed_jobs", "flag"), [(0, 1, "--jobs"), (1, 0, "--seed-jobs")])
def test_at_least_one_at_a_time(tmp_path, slots, seed_jobs, flag):
    with (
        pytest.raises(UsageError, match=f"{flag}: expected at least 1, got 0"),
        here(tmp_path, PLAN, slots=slots, seed_jobs=seed_jobs, keep_policies=False),
    ):
        pass


def test_without_ray_the_command_to_install_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert not ray_is_connected()
    with (
        pytest.raises(MissingExtraError, match=r"--ray needs .* run: pip install 'corpo-rl\[ray\]'"),
        on_ray(tmp_path, PLAN, address="local", slots=1, seed_jobs=1, keep_policies=False),
    ):
        pass


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_a_cluster_that_is_not_there_is_told(tmp_path, address):
    with (
        pytest.raises(CorpoError, match=rf"^--ray {address}: no Ray cluster answers there \(.*\)$"),
        on_ray(tmp_path, PLAN, address=address, slots=1, seed_jobs=1, keep_policies=False),
    ):
        pass


def test_a_node_that_does_not_see_the_folder_says_so(tmp_path):
    with pytest.raises(CorpoError, match=r"nowhere: not there on a node of the Ray cluster; give --out in a folder"):
        _run_on_node(str(tmp_path / "nowhere"), PLAN.to_json(), Work("start"), {})
