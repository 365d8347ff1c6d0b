"""`corpo-rl doctor`: is CoRPO on, here and in this run, and what is in its way."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from corpo_rl.doctor.finding import Finding


@click.command()
@click.argument("files", type=click.Path(exists=True, path_type=Path), nargs=-1)
@click.option("--min-correct", type=float, help="Of logs: least reward that counts as correct.")
@click.option("--ray", "in_ray", is_flag=True, help="Also look into a worker of a local Ray.")
@click.option("--python", help="Interpreter of verl's environment.  [default: this one]")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(
    files: tuple[Path, ...], min_correct: float | None, in_ray: bool, python: str | None, strict: bool, as_json: bool
) -> None:
    """Say whether CoRPO is on, and what is in its way.

    Without FILES: what is installed, and whether verl's processes know our
    estimators. With FILES: a Python script or settings of TRL, a command line
    or configuration of verl, or the log of a run, whose advantages are
    computed again. Nothing that is read is run.

    \b
    Exit status 0: nothing is wrong; 1: something is; 2: wrong usage.

    \b
    Examples:
      corpo-rl doctor --ray
      corpo-rl doctor train.py
      corpo-rl doctor run.sh config.yaml --strict
      corpo-rl doctor runs/mine/completions --min-correct 1
    """
    from corpo_rl.doctor.finding import ERROR, WARNING
    from corpo_rl.doctor.installed import check_plugin, check_versions, installed_versions

    versions: dict[str, str | None] = {}
    if files:
        found = [finding for path in files for finding in check_path(path, min_correct=min_correct)]
    else:
        versions = installed_versions()
        found = check_versions(versions)
        if versions["verl"] is not None or python is not None:
            found += check_plugin(in_ray=in_ray, python=python or sys.executable)
    if as_json:
        click.echo(json.dumps({"versions": versions, "findings": [asdict(one) for one in found]}, indent=2))
    else:
        click.echo(_text(versions, found))
    if any(one.severity == ERROR or (strict and one.severity == WARNING) for one in found):
        raise SystemExit(1)


def check_path(path: Path, *, min_correct: float | None) -> list["Finding"]:
    """What is wrong with a file, told by what it is.

    Raises:
        DataError: It is nothing that the doctor knows.
        UsageError: It is a log, and `min_correct` is not given.
    """
    from corpo_rl.doctor.logs import check_log
    from corpo_rl.doctor.trl_settings import check_script, check_settings
    from corpo_rl.doctor.verl_settings import check_command, check_config_file
    from corpo_rl.errors import DataError, UsageError

    if path.is_file() and path.suffix in (".py", ".sh", ".bash", ".slurm", ".yaml", ".yml", ".json"):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: could not be read ({error})") from None
        if path.suffix == ".py":
            return check_script(path, text)
        if path.suffix in (".sh", ".bash", ".slurm"):
            return check_command(path, text)
        settings = _settings(path, text)
        if isinstance(settings, dict) and "algorithm" in settings:
            return check_config_file(path, settings)
        known = ("min_correct", "advantage_estimator", "num_generations", "scale_rewards")
        if isinstance(settings, dict) and any(name in settings for name in known):
            return check_settings(settings, where=str(path))
        if path.suffix != ".json":
            raise DataError(f"{path}: expected settings of TRL or of verl, found neither")
    if min_correct is None:
        raise UsageError(f"{path}: is taken for a log; say what counts as correct with --min-correct")
    return check_log(path, min_correct=min_correct)


def _settings(path: Path, text: str) -> Any:
    from corpo_rl.errors import DataError, MissingExtraError

    if path.suffix == ".json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None  # JSON Lines, say: a log
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("reading YAML", "train") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: expected YAML ({reason})") from None


def _text(versions: dict[str, str | None], found: Sequence["Finding"]) -> str:
    lines = []
    if versions:
        here = [f"{name} {version}" for name, version in versions.items() if version]
        absent = [name for name, version in versions.items() if not version]
        lines += ["Installed: " + ", ".join(here) + ".", "Not installed: " + (", ".join(absent) or "nothing") + ".", ""]
    for one in found:
        lines.append(f"{one.severity.upper():<8}{one.where}: {one.what}")
        if one.change:
            lines.append(f"        change: {one.change}")
    return "\n".join(lines) + ("" if found else "Nothing is wrong.")
