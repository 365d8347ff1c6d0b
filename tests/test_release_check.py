"""`make release-check` itself: what it compares, what it refuses, and that a failure is seen."""

import tomllib
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from corpo_rl import __version__
from corpo_rl.doctor.installed import SUPPORTED

ROOT = Path(__file__).parent.parent
SPEC = spec_from_file_location("release_check", ROOT / "scripts" / "release_check.py")
CHECK = module_from_spec(SPEC)
SPEC.loader.exec_module(CHECK)

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def requirement(name, extra):
    (found,) = [one for one in map(Requirement, PROJECT["optional-dependencies"][extra]) if one.name == name]
    return found


def pins(file):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


# What is claimed is what is tested


def test_the_oldest_trl_is_the_one_that_is_claimed_and_tested():
    oldest, newest, broken = SUPPORTED["trl"]
    bound = requirement("trl", "train").specifier
    assert CHECK.lowest([f"trl{bound}"]) == [f"trl=={oldest}"]
    assert sorted(one.version for one in bound if one.operator == "!=") == sorted(broken)
    assert pins("constraints.txt")["trl"] == newest
    assert f"--target $(VENV)/trl-oldest trl=={oldest}" in (ROOT / "Makefile").read_text()
    assert f"Tested on TRL {oldest} and {newest}." in (ROOT / "README.md").read_text()
    assert f"tested on {oldest} and {newest}" in (ROOT / "docs/engines.md").read_text()
    assert f"TRL older than {oldest}, or {broken[0]};" in (ROOT / "docs/doctor.md").read_text()


def test_the_oldest_verl_is_the_one_that_is_claimed():
    oldest, newest, _ = SUPPORTED["verl"]
    assert CHECK.lowest([str(requirement("verl", "verl"))]) == [f"verl=={oldest}"]
    assert pins("constraints-verl.txt")["verl"] == newest
    for page in ("docs/doctor.md", "docs/verl.md"):
        assert f"verl older than {oldest}" in " ".join((ROOT / page).read_text().replace("is older", "older").split())


def test_the_oldest_python_is_the_one_that_lint_and_types_assume():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert PYPROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    claimed = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if one.startswith("Programming Language")]
    assert min((one for one in claimed if "." in one), key=Version) == oldest


def test_the_core_needs_what_the_readme_says_each_with_a_lower_bound():
    named = [one.partition("==")[0] for one in CHECK.lowest(PROJECT["dependencies"])]
    assert sorted(named) == ["click", "msgspec", "numpy", "pyarrow"]
    assert "# the audit: numpy, click, msgspec, pyarrow; no torch" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("extra", [extra for extra in ("", *PROJECT["optional-dependencies"]) if extra != "verl"])
def test_the_versions_tested_are_among_those_allowed(extra):
    tested = {name.lower().replace("_", "-"): version for name, version in pins("constraints.txt").items()}
    texts = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for one in map(Requirement, texts):
        if one.name != "corpo-rl":
            assert one.specifier.contains(tested[one.name.lower()]), f"{one}, tested {tested[one.name.lower()]}"


def test_the_build_needs_what_the_tests_build_with():
    assert set(PYPROJECT["build-system"]["requires"]) <= set(PROJECT["optional-dependencies"]["dev"])


# The files that speak of a version


def test_the_files_agree_on_the_version():
    assert __version__ in CHECK.check_versions(ROOT, None)
    assert CHECK.version_of(ROOT) == __version__


def test_the_citation_has_what_its_format_asks_for():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == PROJECT["license"]
    assert citation["title"] == PROJECT["name"]
    assert [one["name"] for one in citation["authors"]] == [one["name"] for one in PROJECT["authors"]]
    assert [one["url"] for one in citation["references"]] == [PROJECT["urls"]["Paper"]]


def test_the_changelog_keeps_its_form():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Changelog"
    heads = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    versions = [Version(head.partition(" - ")[0]) for head in heads if head != "Unreleased"]
    assert heads[0] == "Unreleased" or versions[0] == Version(__version__)
    assert versions == sorted(versions, reverse=True)
    kinds = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    kind = None
    for line in lines:
        kind = None if line.startswith("## ") else line if line.startswith("### ") else kind
        assert kind or not line.startswith("- "), f"under no kind of change: {line}"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src/corpo_rl").mkdir(parents=True)
    (tmp_path / "src/corpo_rl/_version.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2030-01-31\n\n### Added\n\n- A.\n"
    )
    return tmp_path


def test_a_tree_ready_for_its_tag(tree):
    assert CHECK.check_versions(tree, "v0.2.0") == "version 0.2.0"


@pytest.mark.parametrize(
    ("file", "text", "tag", "message"),
    [
        ("CITATION.cff", "cff-version: 1.2.0\nversion: 0.1.0\n", None, "expected version 0.2.0, found 0.1.0"),
        ("CITATION.cff", "cff-version: 1.2.0\n", None, "expected version 0.2.0, found None"),
        ("src/corpo_rl/_version.py", "version = 1\n", None, "expected __version__"),
        ("CITATION.cff", "version: 0.2.0\n", "v0.3.0", "--tag v0.3.0: expected v0.2.0"),
        ("CHANGELOG.md", "## Unreleased\n\n- A.\n", "v0.2.0", "expected a heading '## 0.2.0 - YYYY-MM-DD'"),
        ("CHANGELOG.md", "## 0.2.0\n\n- A.\n", "v0.2.0", "expected a heading '## 0.2.0 - YYYY-MM-DD'"),
        ("CHANGELOG.md", "## Unreleased\n\n- B.\n\n## 0.2.0 - 2030-01-31\n", "v0.2.0", "entries under Unreleased"),
    ],
)
def test_a_tree_that_is_not_ready(tree, file, text, tag, message):
    (tree / file).write_text(text)
    with pytest.raises(CHECK.Failed) as error:
        CHECK.check_versions(tree, tag)
    assert message in str(error.value)


# The script


def test_lowest_versions():
    assert CHECK.lowest(["numpy>=1.26", "trl>=1.9.2,!=1.15.0", "x<9,>=2"]) == ["numpy==1.26", "trl==1.9.2", "x==2"]
    for unbounded in ("numpy", "numpy<3", "numpy==2.0"):
        with pytest.raises(CHECK.Failed, match=r"expected one lower bound \(>=\), found 0"):
            CHECK.lowest([unbounded])


def test_expected_files():
    tracked = ["src/corpo_rl/core/a.py", "src/corpo_rl/py.typed", "tests/t.py", ".ci/run", ".gitignore"]
    assert CHECK.expected_in_sdist(tracked) == {*tracked, "PKG-INFO"} - {".ci/run"}
    metadata = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    assert CHECK.expected_in_wheel(tracked, "1.0") == {
        "corpo_rl/core/a.py", "corpo_rl/py.typed", *(f"corpo_rl-1.0.dist-info/{name}" for name in metadata)
    }  # fmt: skip
    with pytest.raises(CHECK.Failed, match=r"^here: lacks \['a'\], should not hold \['c'\]$"):
        CHECK.same_names(["b", "c"], ["a", "b"], where="here")


def wheel_of(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_wheels_that_differ(tmp_path):
    one = wheel_of(tmp_path / "one.whl", {"a.py": "1", "b.py": "2"})
    CHECK.same_wheels(one, wheel_of(tmp_path / "same.whl", {"b.py": "2", "a.py": "1"}))
    with pytest.raises(CHECK.Failed, match=r"differ in \['b.py'\]"):
        CHECK.same_wheels(one, wheel_of(tmp_path / "byte.whl", {"a.py": "1", "b.py": "3"}))
    with pytest.raises(CHECK.Failed, match=r"lacks \['c.py'\], should not hold \['b.py'\]"):
        CHECK.same_wheels(one, wheel_of(tmp_path / "name.whl", {"a.py": "1", "c.py": "2"}))


def test_relative_links():
    page = "[a](docs/a.md), [b](#b), [c](https://c.org), [d](d.md#e)"
    assert CHECK.relative_links(page) == ["docs/a.md", "d.md#e"]


def test_a_program_that_fails_is_one_line(tmp_path):
    assert CHECK.run(["sh", "-c", "echo out; echo err >&2; exit 3"], folder=tmp_path, status=3) == "out\nerr\n"
    with pytest.raises(CHECK.Failed, match=r"^sh -c echo a; exit 2: expected exit status 0, found 2: a$"):
        CHECK.run(["sh", "-c", "echo a; exit 2"], folder=tmp_path)


def failing(bench):
    raise CHECK.Failed("this is wrong")


@pytest.mark.parametrize(
    ("steps", "passed", "results"),
    [
        ({"build": lambda bench: "a", "twine": lambda bench: "b"}, True, ["passed", "passed"]),
        ({"build": failing, "twine": lambda bench: "b"}, False, ["FAILED", "not run"]),
        ({"twine": failing, "train": lambda bench: "b"}, False, ["FAILED", "passed"]),
    ],
)
def test_the_table_says_what_passed(capsys, tmp_path, steps, passed, results):
    assert CHECK.check(steps, CHECK.Bench(tmp_path, tmp_path, tmp_path)) is passed
    rows = capsys.readouterr().out.splitlines()
    for row, name, result in zip(rows, steps, results, strict=True):
        assert row.startswith(f"{name:<10}{result:<9}")
    assert ("this is wrong" in rows[0]) == (not passed)
