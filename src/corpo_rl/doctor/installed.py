"""What is installed, and whether the versions are those that are supported."""

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from typing import Any

from corpo_rl.doctor.finding import ERROR, NOTE, WARNING, Finding

SUPPORTED = {"trl": ("1.9.2", "1.16.0", ("1.15.0",)), "verl": ("0.9.0", "0.9.1", ())}
"""For each engine the oldest supported version, the newest that is tested, and those that do not work."""

_SHOWN = (
    "corpo-rl", "numpy", "torch", "transformers", "trl", "accelerate", "peft", "datasets", "vllm", "verl", "ray",
    "openai", "math-verify",
)  # fmt: skip

_PLUGIN = """
import importlib.metadata, json, os, sys, traceback
from pathlib import Path
found = {"entry_point": None, "error": None, "names": [], "ray": None}
points = [point for point in importlib.metadata.entry_points(group="verl.plugins") if point.name == "corpo"]
found["entry_point"] = points[0].value if points else None
policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto")
found["policy"] = policy
try:
    import verl
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
    found["names"] = sorted(name for name, one in ADV_ESTIMATOR_REGISTRY.items() if "corpo_rl" in one.__module__)
    if not found["names"] and policy == "auto":
        for point in points:
            point.load()
except BaseException as error:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    found["error"] = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
if "--ray" in sys.argv and not found["error"]:
    import ray
    @ray.remote(num_cpus=1)
    def names():
        import verl
        from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
        return sorted(name for name, one in ADV_ESTIMATOR_REGISTRY.items() if "corpo_rl" in one.__module__)
    try:
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        found["ray"] = ray.get(names.remote(), timeout=180)
    except BaseException as error:
        found["error"] = f"in a Ray worker: {type(error).__name__}: {error}"
    finally:
        ray.shutdown()
print("\\n" + json.dumps(found))
"""


def installed_versions() -> dict[str, str | None]:
    """Versions of what matters here; None for what is not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in _SHOWN:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    versions["bubblewrap"] = "found" if shutil.which("bwrap") else None
    return versions


def check_versions(versions: dict[str, str | None]) -> list[Finding]:
    """What is wrong with them."""
    found = []
    for name, (oldest, newest, broken) in SUPPORTED.items():
        version = versions.get(name)
        if version is None:
            continue
        if version in broken:
            found.append(Finding(ERROR, name, f"{name} {version} does not train without a GPU", f"{name}!={version}"))
        elif _numbers(version) < _numbers(oldest):
            cure = f"pip install '{name}>={oldest}'"
            if name == "verl":
                cure += ", or set VERL_USE_EXTERNAL_MODULES=corpo_rl.training.verl"
            found.append(Finding(ERROR, name, f"{name} {version} is older than {oldest}, the oldest supported", cure))
        elif _numbers(version) > _numbers(newest):
            found.append(Finding(NOTE, name, f"{name} {version} is newer than {newest}, the newest that was tested"))
    if versions.get("trl") is None and versions.get("verl") is None:
        found.append(
            Finding(WARNING, "engines", "neither TRL nor verl is installed here", "pip install 'corpo-rl[train]'")
        )
    return found


def check_plugin(*, in_ray: bool, python: str = sys.executable) -> list[Finding]:
    """Whether verl's processes know our estimators, found out in a process of its own.

    verl reports a plug-in that cannot be loaded at level DEBUG only, so the entry point is loaded by itself as well.

    Args:
        in_ray: Also look into a worker of a local Ray.
        python: Interpreter of verl's environment.
    """
    try:
        done = subprocess.run(
            [python, "-W", "ignore", "-c", _PLUGIN, *(["--ray"] if in_ray else [])],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return [Finding(ERROR, "verl", f"verl's plug-in could not be looked at ({error})")]
    return read_plugin(answer, in_ray=in_ray)


def read_plugin(answer: dict[str, Any], *, in_ray: bool) -> list[Finding]:
    """What the answer of that process means."""
    known = "corpo" in answer["names"]
    if answer["error"]:
        return [
            Finding(
                ERROR,
                "verl",
                f"the plug-in cannot be loaded, which verl itself does not say: {answer['error']}",
                'python -c "import corpo_rl.training.verl"',
            )
        ]
    if not known and answer["entry_point"] is None:
        return [
            Finding(
                ERROR,
                "verl",
                "corpo-rl has no entry point here: an older one is installed",
                "pip install -U corpo-rl",
            )
        ]
    if not known and answer["policy"] != "auto" and "corpo" not in answer["policy"].split(","):
        return [
            Finding(
                ERROR,
                "verl",
                f"VERL_USE_EXTERNAL_PLUGINS={answer['policy']} keeps corpo-rl from being loaded",
                "VERL_USE_EXTERNAL_PLUGINS=corpo",
            )
        ]
    if not known:
        return [Finding(ERROR, "verl", "the plug-in was loaded, but verl's registry does not hold corpo")]
    if in_ray and "corpo" not in (answer["ray"] or []):
        return [Finding(ERROR, "verl", "a Ray worker does not know corpo", "install corpo-rl on every node")]
    return []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdigit())
