"""The adapter's tests once more, in a process of its own, under the oldest TRL that `pyproject.toml` allows."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("CORPO_RL_TRL_OLDEST", ROOT / ".venv" / "trl-oldest"))
MODULES = (
    "test_trl.py",
    "test_trl_metrics.py",
    "test_trl_config.py",
    "test_trl_arguments.py",
    "test_methods_trl.py",
    "test_audit_callback.py",
)

RUN = """
import sys, pytest, trl
assert trl.__version__ == sys.argv[1], f"found TRL {trl.__version__} at {trl.__file__}"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def oldest_allowed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (bound,) = [requirement for requirement in extras["train"] if requirement.startswith("trl>=")]
    return bound.removeprefix("trl>=").partition(",")[0]


@pytest.mark.skipif(
    not (FOLDER / "trl").is_dir(),
    reason=f"no TRL at {FOLDER}: pip install --no-deps --target {FOLDER} trl=={oldest_allowed()}",
)
def test_the_adapter_works_on_the_oldest_trl():
    done = subprocess.run(
        [sys.executable, "-c", RUN, oldest_allowed(), *(str(Path(__file__).with_name(name)) for name in MODULES)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
