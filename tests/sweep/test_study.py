import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from corpo_rl.errors import DataError, MissingExtraError
from corpo_rl.experiment.settings import MINI
from corpo_rl.sweep.plan import Plan
from corpo_rl.sweep.space import Dimension
from corpo_rl.sweep.study import FAILED, FINISHED, LEAST_FOR_IMPORTANCE, RUNNING, Study

pytest.importorskip("optuna", reason="needs corpo-rl[sweep]")

RATES = Dimension("learning_rate", low=1e-4, high=1e-2, log=True)
GROUPS = Dimension("group_size", (4, 8, 16))
FIXED = Dimension("method", ("corpo",))


@pytest.fixture
def tmp_path(tmp_path):
    """In memory where that can be: SQLite waits for the disk at every step."""
    memory = Path("/dev/shm")  # noqa: S108
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def plan_of(sampler="tpe", dimensions=(FIXED, RATES, GROUPS), sampler_seed=0, direction="maximize"):
    return Plan(MINI, dimensions, (0,), "pass@1", direction, "in_domain", sampler, sampler_seed, "rollouts", 0.2)


def worth(trial):
    """A made-up objective: best at a rate of 1e-3 and groups of 8."""
    return -abs(trial.params["learning_rate"] - 1e-3) * 100 - abs(trial.params["group_size"] - 8) / 10


def run(study, n, *, finish=None):
    for _ in range(n):
        trial = study.add()
        (finish or (lambda one: study.finish(one.number, worth(one))))(trial)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_interrupted_anywhere_the_trials_are_the_same(tmp_path, sampler):
    plan = plan_of(sampler)
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = Study(tmp_path / "whole", plan)
    run(whole, 12)  # TPE draws at random until it has 10 trials, then it learns
    expected = whole.trials()
    whole.close()
    study = Study(tmp_path / "parts", plan)
    for number in range(12):
        trial = study.add()
        if number in (0, 4, 10):  # a kill while the trial runs
            study.close()
            study = Study(tmp_path / "parts", plan)
            assert study.trials()[number] == trial
            assert trial.state == RUNNING
        study.finish(number, worth(trial))
        if number in (5, 9, 10):  # and one between two trials
            study.close()
            study = Study(tmp_path / "parts", plan)
            assert [one.state for one in study.trials()] == [FINISHED] * (number + 1)
    assert study.trials() == expected
    study.close()


def test_tpe_learns_where_random_does_not(tmp_path):
    found = {}
    for sampler in ("tpe", "random"):
        (tmp_path / sampler).mkdir()
        study = Study(tmp_path / sampler, plan_of(sampler))
        run(study, 22)
        found[sampler] = sum(trial.value for trial in study.trials()[12:]) / 10
        study.close()
    assert found["tpe"] > found["random"] + 0.05


def test_the_seed_decides_the_settings(tmp_path):
    drawn = []
    for seed in (0, 0, 1):
        folder = tmp_path / str(len(drawn))
        folder.mkdir()
        study = Study(folder, plan_of(sampler_seed=seed))
        run(study, 3)
        drawn.append([trial.params for trial in study.trials()])
        study.close()
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0][0] != drawn[0][1], "a new sampler for each trial, but not the same one"


def test_a_failed_trial_has_a_reason_and_no_value(tmp_path):
    study = Study(tmp_path, plan_of())
    study.fail(study.add().number, "diverged")
    study.fail(study.add().number, "diverged", same_as=0)
    (first, second) = study.trials()
    assert (first.state, first.value, first.reason, first.same_as) == (FAILED, None, "diverged", None)
    assert second.same_as == 0
    study.close()


def test_a_grid_goes_in_order_and_ends(tmp_path):
    study = Study(tmp_path, plan_of("grid", (FIXED, GROUPS)))
    run(study, 3, finish=lambda trial: study.finish(trial.number, 0.0))
    assert study.add() is None
    assert [trial.params["group_size"] for trial in study.trials()] == [4, 8, 16]
    study.close()


def test_importances_come_with_enough_trials_and_name_what_matters(tmp_path):
    study = Study(tmp_path, plan_of("random"))
    for _ in range(LEAST_FOR_IMPORTANCE - 1):
        trial = study.add()
        study.finish(trial.number, -abs(trial.params["learning_rate"] - 1e-3))
    assert study.importances() is None
    trial = study.add()
    study.finish(trial.number, -abs(trial.params["learning_rate"] - 1e-3))
    found = study.importances()
    assert found["learning_rate"] > found["group_size"]
    assert sum(found.values()) == pytest.approx(1)
    assert "sklearn" not in sys.modules
    study.close()


def test_a_broken_file_is_told(tmp_path):
    (tmp_path / "study.db").write_text("not a database, but long enough to be looked at" * 40)
    with pytest.raises(DataError, match=r"study.db: expected the study of this sweep, found"):
        Study(tmp_path, plan_of())


def test_without_optuna_the_command_to_install_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"corpo-rl sweep needs .* pip install 'corpo-rl\[sweep\]'"):
        Study(tmp_path, plan_of())


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.sweep.test_study import plan_of, worth
from corpo_rl.sweep.study import RUNNING, Study
study = Study(Path(sys.argv[1]), plan_of("random"))
for trial in study.trials():
    if trial.state == RUNNING:
        study.finish(trial.number, worth(trial))
while True:
    trial = study.add()
    study.finish(trial.number, worth(trial))
    print(trial.number, flush=True)
"""


def test_a_kill_at_any_moment_leaves_whole_trials(tmp_path, request):
    """A process that does nothing but add and finish trials, killed twice at moments of its own."""
    n_before = 0
    for pause in (0.013, 0.029):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(request.config.rootpath)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout.readline().strip().isdigit()
            time.sleep(pause)
            os.kill(writer.pid, signal.SIGKILL)
        study = Study(tmp_path, plan_of("random"))
        trials = study.trials()
        study.close()
        assert len(trials) > n_before
        n_before = len(trials)
        assert all(set(trial.params) == {"learning_rate", "group_size"} for trial in trials)
        assert [trial.state for trial in trials[:-1]] == [FINISHED] * (len(trials) - 1)
        assert all(trial.value == worth(trial) for trial in trials if trial.state == FINISHED)
    (tmp_path / "whole").mkdir()
    whole = Study(tmp_path / "whole", plan_of("random"))
    run(whole, n_before)
    assert [trial.params for trial in whole.trials()] == [trial.params for trial in trials]
    whole.close()
