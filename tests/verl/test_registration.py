"""That the estimators are there in every process that needs them, and what is seen when they are not."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points

import pytest
from verl.trainer.ppo import core_algos

from corpo_rl.training import verl as adapter
from corpo_rl.training.verl_settings import VERL_NAMES

SHOW = """
import sys, verl
from verl.trainer.ppo import core_algos
print("NAMES", *sorted(set(core_algos.ADV_ESTIMATOR_REGISTRY) & {"corpo", "loo_corpo", "corpo_static", "dr_grpo"}))
print("V1", "verl.trainer.ppo.v1" in sys.modules)
"""


def fresh_process(code, *path, **environment):
    """Standard output and error of code in a Python of its own."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment},
    )
    return ran.stdout, ran.stderr


def test_the_entry_point_is_declared():
    (found,) = entry_points(group="verl.plugins", name="corpo")
    assert found.value == adapter.__name__


def test_importing_verl_is_enough_and_costs_no_trainer():
    out, _ = fresh_process(SHOW)
    assert "NAMES corpo corpo_static dr_grpo loo_corpo\n" in out
    assert "V1 False\n" in out, "a worker that trains nothing must not import the trainer for our sake"


def test_without_plugins_verl_knows_nothing_of_us():
    out, _ = fresh_process(SHOW, VERL_USE_EXTERNAL_PLUGINS="none")
    assert "NAMES\n" in out


def test_the_environment_variable_works_where_plugins_are_off():
    out, _ = fresh_process(SHOW, VERL_USE_EXTERNAL_PLUGINS="none", VERL_USE_EXTERNAL_MODULES=adapter.__name__)
    assert "NAMES corpo corpo_static dr_grpo loo_corpo\n" in out


@pytest.mark.parametrize(
    "environment",
    [{}, {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": adapter.__name__}],
    ids=["entry point", "environment variable"],
)
def test_registered_in_a_ray_actor(environment, local_ray):
    @local_ray.remote(num_cpus=0)
    class Worker:
        def look(self):
            import verl  # noqa: F401  # as verl's own workers do
            from verl.trainer.ppo import core_algos

            return os.getpid(), sorted(name for name in VERL_NAMES if name in core_algos.ADV_ESTIMATOR_REGISTRY)

    worker = Worker.options(runtime_env={"env_vars": environment}).remote()
    pid, names = local_ray.get(worker.look.remote(), timeout=120)
    local_ray.kill(worker)
    assert pid != os.getpid()
    assert names == sorted(VERL_NAMES)


def test_a_plugin_that_fails_is_hidden_by_verl_until_the_first_advantages(tmp_path):
    """Why something else has to look whether we are there: verl says nothing, then does not know the name."""
    (tmp_path / "corpo_rl").mkdir()
    (tmp_path / "corpo_rl" / "__init__.py").write_text("raise ImportError('libnothing.so.1: cannot open')\n")
    out, err = fresh_process(
        """
        import logging
        said = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append((record.levelname, record.getMessage()))
        logging.getLogger("verl").addHandler(handler)
        logging.getLogger("verl").setLevel(logging.DEBUG)
        logging.getLogger("verl").propagate = False
        import verl
        from verl.trainer.ppo import core_algos
        print("SAID", *[line for line in said if "plugin" in line[1]])
        try:
            core_algos.get_adv_estimator_fn("corpo")
        except ValueError as error:
            print("ERROR", error)
        """,
        tmp_path,
    )
    assert "SAID ('DEBUG', \"Failed to load plugin 'corpo': libnothing.so.1: cannot open\")\n" in out
    assert "ERROR Unknown advantage estimator simply: corpo" in out
    assert "libnothing" not in err


def test_registering_twice_changes_nothing():
    from verl.trainer.ppo.v1 import trainer_base

    def there():
        functions = [core_algos.get_adv_estimator_fn(name) for name in VERL_NAMES]
        trainer = trainer_base.PPOTrainer
        wrapped = trainer_base.compute_advantage_for_multi_trajectories, trainer._compute_advantage, trainer.__init__
        return [*functions, *wrapped]

    before = there()
    adapter.register()
    assert there() == before


def test_a_foreign_estimator_of_our_name_is_not_replaced(monkeypatch):
    def foreign(**_):
        raise AssertionError("never called")

    monkeypatch.setitem(core_algos.ADV_ESTIMATOR_REGISTRY, "corpo", foreign)
    with pytest.raises(ValueError, match="Adv estimator corpo has already been registered"):
        adapter.register()
