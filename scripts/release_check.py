"""Checks what would be released, as its users get it: built from the commit, installed into empty environments, run.

    make release-check                                         everything, some ten minutes
    python scripts/release_check.py --lowest                   only the oldest versions of the dependencies
    python scripts/release_check.py --tag v0.1.0 --out dist    before a release; dist gets what was checked

It needs a clone, `pip install -e '.[dev]'`, and a package registry for pip. A table says what passed; the exit status
is 0 when everything did.
"""

import argparse
import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
NOT_SHIPPED = (".ci/",)
"""What of the clone's files the source distribution leaves out: how this project's own checks are started."""
WRITTEN_BY_BUILD = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
FORMATS = ("trl", "trl-chat", "verl", "jsonl", "csv", "parquet", "nemo_gym")
"""Logs audited with the oldest dependencies: parquet, JSON and CSV, with and without text."""


class Failed(Exception):
    """A check did not pass; the message is one line."""


class Bench(NamedTuple):
    """Where a check works: the commit's files, what is built of them, and a folder for all the rest."""

    tree: Path
    dist: Path
    work: Path

    @property
    def sdist(self) -> Path:
        """The source distribution."""
        return _only(self.dist.glob("*.tar.gz"))

    @property
    def wheel(self) -> Path:
        """The wheel that was built from the source distribution."""
        return _only(self.dist.glob("*.whl"))


def _only(paths: Iterable[Path]) -> Path:
    found = list(paths)
    if len(found) != 1:
        raise Failed(f"expected one built file, found {[path.name for path in found]}")
    return found[0]


def run(command: Sequence[str | Path], *, folder: Path, status: int = 0) -> str:
    """Output of a command (stdout, then stderr), away from the checkout and from the settings of this process.

    Raises:
        Failed: another exit status than `status`, with the last line of what it said.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env |= {"PYTHONNOUSERSITE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != status:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        shown = " ".join(Path(str(part)).name if "/" in str(part) else str(part) for part in command)[:80]
        raise Failed(f"{shown}: expected exit status {status}, found {done.returncode}: {said[:300]}")
    return done.stdout + done.stderr


def members(archive: Path) -> dict[str, bytes]:
    """Names and contents of the files in a wheel, or in a source distribution without its top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as sdist:
        files = [member for member in sdist.getmembers() if member.isfile()]
        return {file.name.partition("/")[2]: sdist.extractfile(file).read() for file in files}  # type: ignore[union-attr]


def expected_in_sdist(tracked: Iterable[str]) -> set[str]:
    """What the source distribution of a clone with these files holds: all but NOT_SHIPPED, and its metadata."""
    return {name for name in tracked if not name.startswith(NOT_SHIPPED)} | {"PKG-INFO"}


def expected_in_wheel(tracked: Iterable[str], version: str) -> set[str]:
    """What the wheel of a clone with these files holds: the package, and its metadata."""
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/corpo_rl/")}
    return package | {f"corpo_rl-{version}.dist-info/{name}" for name in WRITTEN_BY_BUILD}


def same_names(found: Iterable[str], expected: Iterable[str], *, where: str) -> None:
    """Raises Failed, with the first three names each, where the two differ."""
    found, expected = set(found), set(expected)
    if found != expected:
        lacking, unwanted = (sorted(names)[:3] for names in (expected - found, found - expected))
        raise Failed(f"{where}: lacks {lacking or 'nothing'}, should not hold {unwanted or 'anything'}")


def same_wheels(one: Path, other: Path) -> None:
    """Raises Failed where two wheels differ, in names or in a byte."""
    a, b = members(one), members(other)
    same_names(a, b, where="the wheel from the source distribution, against the one from the tree")
    differing = sorted(name for name in a if a[name] != b[name])
    if differing:
        raise Failed(f"the wheels from the source distribution and from the tree differ in {differing[:3]}")


def lowest(requirements: Iterable[str]) -> list[str]:
    """Each requirement at its lowest version.

    Raises:
        Failed: one has no lower bound, so nobody can say what it was tested with.

    Example:
        >>> lowest(["numpy>=1.26,<3"])
        ['numpy==1.26']
    """
    pinned = []
    for text in requirements:
        requirement = Requirement(text)
        bounds = [one.version for one in requirement.specifier if one.operator == ">="]
        if len(bounds) != 1:
            raise Failed(f"{text}: expected one lower bound (>=), found {len(bounds)}")
        pinned.append(f"{requirement.name}=={bounds[0]}")
    return pinned


def relative_links(text: str) -> list[str]:
    """Targets of Markdown links that lead to a file beside the page, and so nowhere on a package index."""
    return re.findall(r"\]\((?!https?://|#)([^)\s]+)\)", text)


def version_of(tree: Path) -> str:
    """The version of a tree's files."""
    found = re.search(r'__version__ = "([^"]+)"', (tree / "src/corpo_rl/_version.py").read_text(encoding="utf-8"))
    if found is None:
        raise Failed("src/corpo_rl/_version.py: expected __version__")
    return found[1]


def check_versions(tree: Path, tag: str | None) -> str:
    """The version, where every file names the same; for a tag also what the changelog says of it.

    Raises:
        Failed: they disagree, or entries of a version that is to be released still stand under Unreleased.
    """
    version = version_of(tree)
    cited = re.search(r"^version: (.*)$", (tree / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    if cited is None or cited[1] != version:
        raise Failed(f"CITATION.cff: expected version {version}, found {cited and cited[1]}")
    sections = re.split(r"^## ", (tree / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    heads = [section.partition("\n")[0] for section in sections]
    if tag is None:
        return f"version {version}, not yet dated" if version not in " ".join(heads) else f"version {version}"
    if tag != f"v{version}":
        raise Failed(f"--tag {tag}: expected v{version}, the version in src/corpo_rl/_version.py")
    if not any(re.fullmatch(re.escape(version) + r" - \d{4}-\d\d-\d\d", head) for head in heads):
        raise Failed(f"CHANGELOG.md: expected a heading '## {version} - YYYY-MM-DD', found {heads}")
    if any(head == "Unreleased" and "\n- " in section for head, section in zip(heads, sections, strict=True)):
        raise Failed(f"CHANGELOG.md: entries under Unreleased; move them to {version}")
    return f"version {version}"


def _source(bench: Bench, tag: str | None) -> str:
    changed = run(["git", "status", "--porcelain", "--untracked-files=no"], folder=ROOT).splitlines()
    if changed and tag is not None:
        raise Failed(f"{len(changed)} files differ from the commit; commit or undo the changes before a release")
    commit = run(["git", "rev-parse", "--short", "HEAD"], folder=ROOT).strip()
    run(["git", "archive", "--output", bench.work / "tree.tar", "HEAD"], folder=ROOT)
    with tarfile.open(bench.work / "tree.tar") as archive:
        archive.extractall(bench.tree, filter="data")
    return f"commit {commit}, {check_versions(bench.tree, tag)}" + (
        f" ({len(changed)} uncommitted files are not in it)" if changed else ""
    )


def _build(bench: Bench) -> str:
    run([sys.executable, "-m", "build", "--outdir", bench.dist, bench.tree], folder=bench.work)
    again = bench.work / "from-tree"
    run([sys.executable, "-m", "build", "--wheel", "--outdir", again, bench.tree], folder=bench.work)
    same_wheels(bench.wheel, _only(again.glob("*.whl")))
    return ", ".join(f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)" for path in (bench.wheel, bench.sdist))


def _contents(bench: Bench) -> str:
    tracked = run(["git", "ls-tree", "-r", "--name-only", "HEAD"], folder=ROOT).splitlines()
    in_sdist, in_wheel = members(bench.sdist), members(bench.wheel)
    same_names(in_sdist, expected_in_sdist(tracked), where=bench.sdist.name)
    same_names(in_wheel, expected_in_wheel(tracked, version_of(bench.tree)), where=bench.wheel.name)
    return f"{len(in_sdist)} files of the commit in the source distribution, {len(in_wheel)} in the wheel"


def _twine(bench: Bench) -> str:
    run([sys.executable, "-m", "twine", "check", "--strict", bench.wheel, bench.sdist], folder=bench.work)
    metadata = email.message_from_bytes(members(bench.sdist)["PKG-INFO"])
    links = relative_links(str(metadata.get_payload()))
    if links:
        raise Failed(f"the description links to files, which leads nowhere on an index: {links[:3]}")
    return "metadata and description"


def _environment(bench: Bench, name: str, *installs: Sequence[str]) -> tuple[Path, dict[str, str]]:
    """Folder of the programs of a new environment with what each pip call installs, and the versions in it."""
    folder = bench.work / name
    venv.create(folder, with_pip=True)
    for install in installs:
        run([folder / "bin/python", "-m", "pip", "install", "--quiet", *install], folder=bench.work)
    run([folder / "bin/python", "-m", "pip", "check"], folder=bench.work)
    listed = json.loads(run([folder / "bin/python", "-m", "pip", "list", "--format", "json"], folder=bench.work))
    home = run([folder / "bin/python", "-c", "import corpo_rl; print(corpo_rl.__file__)"], folder=bench.work)
    if not home.startswith(str(folder)):
        raise Failed(f"expected corpo_rl in {folder}, found {home.strip()}")
    return folder / "bin", {canonicalize_name(one["name"]): one["version"] for one in listed}


def _project(tree: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _empty(bench: Bench) -> str:
    programs, versions = _environment(bench, "empty", [str(bench.wheel)])
    project = _project(bench.tree)
    core = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    extras = project["optional-dependencies"].values()
    optional = {canonicalize_name(Requirement(text).name) for extra in extras for text in extra} - core - {"corpo-rl"}
    brought = sorted(versions.keys() & optional)
    if brought:
        raise Failed(f"the package without extras brings {brought}")
    corpo = programs / "corpo-rl"
    for form in FORMATS:
        run([corpo, "demo-log", f"demo-{form}", "--format-out", form], folder=bench.work)
    said = run([corpo, "audit", "demo-trl", "--min-correct", "0.8"], folder=bench.work)
    if "of failed rollouts were reinforced" not in said:
        raise Failed(f"audit: expected the share of reinforced failures, found {said[:200]!r}")
    run([corpo, "selftest"], folder=bench.work)
    refused = run([corpo, "compare"], folder=bench.work, status=1).splitlines()
    if len(refused) != 1 or "pip install 'corpo-rl[train]'" not in refused[0]:
        raise Failed(f"compare without its extra: expected one line naming it, found {refused[:3]}")
    return "audit and self-test run; installed: " + ", ".join(f"{name} {versions[name]}" for name in sorted(core))


def _audits(programs: Path, bench: Bench) -> dict[str, object]:
    """What the audit of each demo log says, but for the time."""
    documents = {}
    for form in FORMATS:
        document = ("audit", f"demo-{form}", "--min-correct", "0.8", "--format", "json")
        documents[form] = json.loads(run([programs / "corpo-rl", *document], folder=bench.work))
        del documents[form]["created"]
    return documents


def _lowest(bench: Bench) -> str:
    project = _project(bench.tree)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if project["requires-python"] != f">={python}":
        raise Failed(f"requires-python is {project['requires-python']}: run this with that Python, not {python}")
    pins = lowest(project["dependencies"])
    newest = bench.work / "empty" / "bin"
    if not newest.is_dir():  # with --lowest, which leaves that check out
        _empty(bench)
    programs, _ = _environment(bench, "lowest", [str(bench.wheel), *pins])
    run([programs / "corpo-rl", "demo-log", "demo-oldest"], folder=bench.work)
    run([programs / "corpo-rl", "selftest"], folder=bench.work)
    ours, theirs = _audits(programs, bench), _audits(newest, bench)
    differing = [form for form in FORMATS if ours[form] != theirs[form]]
    if differing:
        raise Failed(f"with {', '.join(pins)} the audit says something else of {differing}")
    return f"{', '.join(pins)} on Python {python}: same audits of {len(FORMATS)} logs as with the newest"


def readme_script(tree: Path) -> str:
    """The README's training script: two steps on the policy that ships with the package."""
    blocks = re.findall(r"```python\n(.*?)```", (tree / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    (script,) = [str(block) for block in blocks if "CorpoTrainer" in block]
    return script


def _train(bench: Bench) -> str:
    pin = re.search(r"^torch==.*$", (bench.tree / "constraints.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    if pin is None:
        raise Failed("constraints.txt: expected a line torch==VERSION")
    programs, versions = _environment(bench, "train", [pin[0]], [f"{bench.wheel}[train]"])
    said = run([programs / "python", "-W", "ignore", "-c", readme_script(bench.tree)], folder=bench.work)
    if said.count("corpo/r_count") != 2:
        raise Failed(f"expected figures of two steps, found {said.count('corpo/r_count')}")
    run([programs / "corpo-rl", "doctor"], folder=bench.work)
    shown = ("torch", "trl", "transformers", "accelerate", "datasets", "peft")
    return "two steps with " + ", ".join(f"{name} {versions[name]}" for name in shown)


def check(steps: dict[str, Callable[[Bench], str]], bench: Bench) -> bool:
    """Take the steps in turn, print the table, and say whether all passed.

    Nothing can be said of what was not built: after a failure in `source` or `build` the rest is not run.
    """
    rows, stopped = [], False
    for name, step in steps.items():
        start = time.monotonic()
        sys.stderr.write(f"{name} ...\n")
        try:
            result, found = ("not run", "") if stopped else ("passed", step(bench))
        except Failed as error:
            result, found = "FAILED", str(error)
            stopped = name in ("source", "build")
        rows.append((name, result, time.monotonic() - start, found))
    for name, result, seconds, found in rows:
        sys.stdout.write(f"{name:<10}{result:<9}{seconds:>5.0f} s  {found}".rstrip() + "\n")
    return all(result == "passed" for _, result, _, _ in rows)


def main() -> None:
    """Check, and exit with 0 if everything passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lowest", action="store_true", help="check only the oldest versions of the dependencies")
    parser.add_argument("--tag", help="the release this is to become, as v0.1.0")
    parser.add_argument("--out", type=Path, help="an empty or new folder for the files that were checked")
    options = parser.parse_args()
    if options.out is not None and options.out.exists() and any(options.out.iterdir()):
        parser.error(f"--out {options.out}: expected an empty or new folder")
    steps: dict[str, Callable[[Bench], str]] = {"source": lambda bench: _source(bench, options.tag), "build": _build}
    if not options.lowest:
        steps |= {"contents": _contents, "twine": _twine, "empty": _empty}
    steps["lowest"] = _lowest
    if not options.lowest:
        steps["train"] = _train
    with tempfile.TemporaryDirectory(prefix="corpo-rl-release-") as folder:
        work = Path(folder)
        dist = work / "dist" if options.out is None else options.out.resolve()
        passed = check(steps, Bench(work / "tree", dist, work))
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
