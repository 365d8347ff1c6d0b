"""What is released: the files that ship, and that they work where the source is not."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from corpo_rl import __version__

ROOT = Path(__file__).parent.parent
if not (ROOT / ".git").exists() or shutil.which("git") is None:
    pytest.skip("what ships is compared with the files of a clone, and this is none", allow_module_level=True)
for needed in ("build", "hatchling", "hatch_fancy_pypi_readme", "comrak"):
    if find_spec(needed) is None:
        pytest.skip(f"no {needed}: pip install -e '.[dev]'", allow_module_level=True)

SPEC = spec_from_file_location("release_check", ROOT / "scripts" / "release_check.py")
CHECK = module_from_spec(SPEC)
SPEC.loader.exec_module(CHECK)

UNWANTED = (
    "__pycache__/setup.pyc",
    "src/corpo_rl/__pycache__/errors.cpython-311.pyc",
    "tests/.hypothesis/examples/one",
    ".mypy_cache/3.11/corpo_rl.json",
    ".pytest_cache/v/cache/lastfailed",
    ".venv/lib/python3.11/site-packages/numpy/__init__.py",
    ".ci/run",
    "build/lib/corpo_rl/__init__.py",
    "dist/corpo_rl-0.0.1.tar.gz",
    "runs/mini/results.json",
    "recipes/mini/runs/mini/metrics.jsonl",
    "data/example_model_solutions.jsonl",
    "shared/data/humaneval/HumanEval.jsonl.gz",
    "demo/completions_00001.parquet",
    "pairs.jsonl",
    "notes.txt",
)
"""Files that lie in a checkout and are none of the project's; a release has none of them."""


def ran(*command, cwd, env=None, status=0):
    """What a program says, in an environment that does not lead back to the checkout."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | (env or {})
    env |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == status, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tracked, tmp_path_factory):
    """Folder with the source distribution and the wheel made from it; in from-tree/ the wheel made from the files."""
    folder = tmp_path_factory.mktemp("release")
    tree = folder / "tree"
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    for name in UNWANTED:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("unwanted")
    build = (sys.executable, "-m", "build", "--quiet", "--no-isolation", "--skip-dependency-check")
    ran(*build, "--outdir", folder, tree, cwd=folder)
    ran(*build, "--wheel", "--outdir", folder / "from-tree", tree, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(built):
    (found,) = built.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def description(wheel):
    (name,) = [name for name in CHECK.members(wheel) if name.endswith(".dist-info/METADATA")]
    message = email.message_from_bytes(CHECK.members(wheel)[name])
    assert message["Description-Content-Type"] == "text/markdown"
    return message.get_payload(decode=True).decode()


def environment(folder, wheel):
    """Programs and packages of a new virtual environment that holds the wheel and nothing else."""
    venv.create(folder, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-deps")
    ran(*pip, "--no-index", "--no-compile", wheel, cwd=folder)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return folder / "bin", packages


def required(name, found):
    """Adds to `found` the distributions that one needs without extras, itself included."""
    if name not in found:
        found[name] = metadata.distribution(name)
        for requirement in map(Requirement, found[name].requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                required(requirement.name, found)
    return found


@pytest.fixture(scope="module")
def bare(built, wheel):
    """Programs of an environment with the wheel and what it requires without extras, linked from this one."""
    programs, packages = environment(built / "bare", wheel)
    (name,) = [name for name in CHECK.members(wheel) if name.endswith("METADATA")]
    requires = email.message_from_bytes(CHECK.members(wheel)[name]).get_all("Requires-Dist")
    for requirement in map(Requirement, requires):
        if requirement.marker is None:
            for one in required(requirement.name, {}).values():
                for top in {file.parts[0] for file in one.files if file.parts[0] not in ("..", "__pycache__")}:
                    (packages / top).symlink_to(one.locate_file(top))
    return programs


@pytest.fixture(scope="module")
def full(built, wheel):
    """Programs of an environment with the wheel over the libraries of this one, but not over its corpo_rl.

    A folder named in a .pth file joins the path, while the .pth files in it, which lead to the source, are not read.
    """
    programs, packages = environment(built / "full", wheel)
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


def test_the_source_distribution_ships_the_clone_and_nothing_else(sdist, tracked):
    found = set(CHECK.members(sdist))
    CHECK.same_names(found, CHECK.expected_in_sdist(tracked), where="[tool.hatch.build.targets.sdist]")
    assert not found & set(UNWANTED)
    for name in (
        "Makefile",
        "constraints.txt",
        "constraints-verl.txt",
        "SECURITY.md",
        "CITATION.cff",
        "pyproject.toml",
    ):
        assert name in found
    for folder in ("tests/", "docs/", "recipes/", "benchmarks/", "fuzz/", "scripts/", "src/corpo_rl/"):
        assert any(name.startswith(folder) for name in found), folder


def test_the_wheel_ships_the_package_and_nothing_else(wheel, tracked):
    found = set(CHECK.members(wheel))
    CHECK.same_names(found, CHECK.expected_in_wheel(tracked, __version__), where=wheel.name)
    assert "corpo_rl/py.typed" in found
    assert {name.rpartition(".")[2] for name in found if name.startswith("corpo_rl/")} <= {
        "py", "typed", "json", "css", "js", "md", "safetensors",
    }  # fmt: skip


def test_the_wheel_from_the_source_distribution_equals_the_one_from_the_tree(built, wheel):
    (from_tree,) = (built / "from-tree").glob("*.whl")
    CHECK.same_wheels(wheel, from_tree)
    assert len(CHECK.members(wheel)) > 200


def test_the_description_is_the_readme_without_links_to_files(description):
    readme = (ROOT / "README.md").read_text()
    linked = {target.partition("#")[0] for target in CHECK.relative_links(readme)}
    assert {"CHANGELOG.md", "docs/theory.md"} <= linked, "else there would be nothing to rewrite"
    assert CHECK.relative_links(description) == []
    blocks = re.findall(r"```.*?```", readme, flags=re.DOTALL)
    assert re.findall(r"```.*?```", description, flags=re.DOTALL) == blocks
    without = re.sub(r"\[([^\[\]]+)\]\((?!http|#)[^)]*\)", r"\1", readme)
    assert description.startswith(without.strip()), "links become their text; all the rest is as it was"


def test_the_description_renders_and_its_anchors_lead_somewhere(description):
    from readme_renderer.markdown import render

    html = render(description)
    assert html is not None
    assert html.count("<table") == len(re.findall(r"^\| ?---", description, flags=re.MULTILINE))
    targets = set(re.findall(r'<a href="#([^"]+)"', html))
    assert {"user-content-audit-a-run", "user-content-compare-estimators"} <= targets
    assert targets <= set(re.findall(r' id="([^"]+)"', html))
    assert all(target.startswith(("https://", "#")) for target in re.findall(r'<a href="([^"]+)"', html))


def test_twine_takes_both(sdist, wheel, tmp_path):
    said = ran(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=tmp_path)
    assert said.count("PASSED") == 2


def test_without_extras_the_audit_works_and_there_is_no_torch(bare, tmp_path):
    code = """
import json, pathlib, sys
from corpo_rl.cli.main import cli
for arguments in (["demo-log", "demo"], ["audit", "demo", "--min-correct", "0.8"]):
    cli(arguments, standalone_mode=False)
import corpo_rl
print(json.dumps([corpo_rl.__file__, sys.path, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
    said = ran(bare / "python", "-c", code, cwd=tmp_path)
    assert "36.5 % [33.7, 39.2] of failed rollouts were reinforced." in said
    file, path, modules = json.loads(said.splitlines()[-1])
    assert file.startswith(str(bare.parent))
    assert not [folder for folder in path if folder.startswith(str(ROOT))]
    assert {"numpy", "click", "corpo_rl"} <= set(modules)
    assert not {"torch", "transformers", "trl", "plotly", "pandas", "datasets"} & set(modules)
    ran(bare / "python", "-c", "import torch", cwd=tmp_path, status=1)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("compare", "train"),
        ("warmstart --out policy", "train"),
        ("sweep --learning-rate 1e-4,1e-3", "train|sweep"),
        ("evaluate ./model mini", "train"),
        ("rank problem.txt answers.jsonl --model ./model", "train"),
        ("doctor settings.yaml", "train"),
        ("pairs sample http://127.0.0.1:1/v1#model problems.jsonl --n 1 --out answers", "endpoint"),
        ("pairs label answers.jsonl --problems problems.jsonl --out labels.jsonl", "pairs"),
    ],
)
def test_a_command_without_its_extra_names_it_in_one_line(bare, tmp_path, arguments, extra):
    (tmp_path / "model").mkdir()
    (tmp_path / "settings.yaml").write_text("algorithm: {adv_estimator: corpo}\n")
    (tmp_path / "problem.txt").write_text("2 + 2?\n")
    answers = [{"answer": word, "task_id": "t/0", "completion": f"    return {word}\n"} for word in "45"]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    problem = {
        "task_id": "t/0",
        "prompt": "def f():\n",
        "entry_point": "f",
        "test": "def check(f):\n    assert f() == 4\n",
    }
    (tmp_path / "problems.jsonl").write_text(json.dumps(problem | {"canonical_solution": "    return 4\n"}) + "\n")
    (line,) = ran(bare / "corpo-rl", *arguments.split(), cwd=tmp_path, status=1).splitlines()
    assert re.fullmatch(rf"error: .+; run: pip install 'corpo-rl\[({extra})\]'", line)


@pytest.mark.skipif(find_spec("trl") is None, reason="trains: needs corpo-rl[train]")
def test_two_steps_of_training_from_the_wheel(full, tmp_path):
    script = CHECK.readme_script(ROOT)
    said = ran(
        full / "python", "-W", "ignore", "-c", script + "import corpo_rl; print(corpo_rl.__file__)", cwd=tmp_path
    )
    assert said.count("corpo/r_count") == 2
    assert str(full.parent) in said
    assert (tmp_path / "out" / "checkpoint-2" / "model.safetensors").is_file()


USER = """\
import corpo_rl
from corpo_rl import corpo_advantages

reveal_type(corpo_rl.corpo_advantages([0.0, 1.0], [0, 0], min_correct=1.0))
reveal_type(corpo_rl.__version__)
corpo_advantages([0.0, 1.0], [0, 0], min_correct="1")
corpo_advantages([0.0, 1.0], [0, 0])
corpo_rl.corpo_advantage
"""


def checked(programs, folder):
    """What mypy says of USER in an environment, by line; of lines with two remarks the first."""
    (folder / "user.py").write_text(USER)
    mypy = (Path(sys.executable).with_name("mypy"), "--python-executable", programs / "python", "--config-file=")
    said = ran(*mypy, "--strict", "--cache-dir", folder / "cache", "user.py", cwd=folder, status=1)
    return {int(line.split(":")[1]): line for line in reversed(said.splitlines()) if line.startswith("user.py:")}


def test_a_user_s_type_checker_sees_the_types(bare, tmp_path):
    said = checked(bare, tmp_path)
    assert re.search(r'Revealed type is "numpy\.ndarray\[.*numpy\.float64.*\]"', said[4])
    assert 'Revealed type is "str"' in said[5]
    assert 'incompatible type "str"; expected "float"' in said[6]
    assert 'Missing named argument "min_correct"' in said[7]
    assert 'Module has no attribute "corpo_advantage"' in said[8]
    assert sorted(said) == [4, 5, 6, 7, 8]


def test_without_its_marker_the_checker_would_see_nothing(built, bare, tmp_path):
    packages = tmp_path / "unmarked/lib"
    unmarked = shutil.copytree(built / "bare", tmp_path / "unmarked", symlinks=True) / "bin"
    next(packages.glob("python*/site-packages/corpo_rl/py.typed")).unlink()
    said = checked(unmarked, tmp_path)
    assert "missing library stubs or py.typed marker" in said[1]
    assert 'Revealed type is "Any"' in said[4]
