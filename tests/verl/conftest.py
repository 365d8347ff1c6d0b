import os

import pytest

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # else Ray leaves a token in the home folder
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


@pytest.fixture(scope="session")
def composed():
    """verl's own configuration for main_ppo, with overrides as on its command line."""
    from hydra import compose, initialize_config_module

    def compose_with(*overrides, name="ppo_trainer"):
        with initialize_config_module(config_module="verl.trainer.config", version_base=None):
            return compose(name, overrides=list(overrides))

    return compose_with


@pytest.fixture(scope="session")
def local_ray():
    """A Ray of this machine alone, stopped when the tests are over."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, namespace="corpo-rl-tests")
    try:
        yield ray
    finally:
        ray.shutdown()


@pytest.fixture(autouse=True)
def forgetful():
    """Nothing that one test has been warned of, or has watched, is known to the next."""
    from corpo_rl.training import verl

    verl._warned.clear()
    verl._floor_watches.clear()
    verl._latest_figures.clear()
