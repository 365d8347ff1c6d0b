"""Every block of code on the pages of docs/ is run, or says why not."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("markdown_it", reason="needs corpo-rl[docs]")

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "docs_run.py"
PAGES = sorted((ROOT / "docs").glob("*.md"))
NEEDS = {"trl": re.compile(r"corpo_rl\.training"), "math_verify": re.compile(r"pairs (label|build)")}


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


docs_run = load(SCRIPT)


def missing(page):
    """What a page needs that is not installed, in words; "" where nothing is missing."""
    text = page.read_text()
    names = [name for name, used in NEEDS.items() if used.search(text) and importlib.util.find_spec(name) is None]
    if "pairs label" in text and shutil.which("bwrap") is None:
        names.append("bubblewrap")
    return ", ".join(names)


@pytest.fixture(scope="module")
def ran():
    """What became of each page, two at a time; those with the longest blocks first."""

    def run(page):
        done = subprocess.run([sys.executable, str(SCRIPT), str(page)], capture_output=True, text=True, timeout=200)
        return json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stderr}

    pages = sorted((page for page in PAGES if not missing(page)), key=lambda page: ".train()" not in page.read_text())
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(pages, pool.map(run, pages), strict=True))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page, ran):
    if missing(page):
        pytest.skip(f"needs {missing(page)}")
    assert ran[page]["error"] == ""
    text = page.read_text()
    assert ran[page]["run"] + len(ran[page]["not_run"]) >= len(re.findall(r"^```(?:python|console|bash)", text, re.M))


def test_blocks_that_are_not_run_have_a_reason_and_are_few(ran, capsys):
    reasons = [f"{page.name}, {reason}" for page, found in ran.items() for reason in found.get("not_run", [])]
    n_run = sum(found.get("run", 0) for found in ran.values())
    with capsys.disabled():
        print(f"\ndocs: {n_run} blocks run, {len(reasons)} not run")
        for reason in reasons:
            print(f"  {reason}")
    assert not [reason for reason in reasons if "no reason given" in reason]
    assert len(reasons) < n_run


@pytest.fixture
def run_text(tmp_path, monkeypatch):
    """A page with a text, run in an empty folder in this process."""

    def run(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        (tmp_path / "folder").mkdir()
        monkeypatch.chdir(tmp_path / "folder")
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        return docs_run.run_page(path)

    return run


def test_blocks_share_a_folder_and_a_namespace(run_text):
    text = (
        "```python\nimport pathlib\npathlib.Path('a.txt').write_text('seven\\n')\nn = 7\n```\n\n"
        "```console\n$ cat a.txt\nseven\n$ printf 'x\\ny\\nz\\n'\nx\n...\n```\n\n"
        "```python\n>>> n\n7\n\n```\n\n"
        "<!-- setup: echo more > b.txt -->\n\n    $ cat b.txt\n    more\n\n"
        "```bash\ncat > c.txt <<'END'\nlast # no comment\nEND\ngrep -q 'no comment' c.txt\n```\n"
    )
    found = run_text(text)
    assert (found.error, found.run, found.not_run) == ("", 6, [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\n1 / 0\n```\n", "page.md:1: ZeroDivisionError: division by zero"),
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected:"),
        ("```console\n$ echo one\ntwo\n```\n", "does not print what is shown"),
        ("```console\n$ false\n```\n", "'false' ended with 1"),
        ("<!-- exit status 2 -->\n```console\n$ false\n```\n", "'false' ended with 1"),
        ("text\n\n    corpo-rl audit no/such/log\n", "ended with 2"),
        ("```console\n$ pip install corpo-rl\n```\n", "would install something"),
        ("```json\n{broken\n```\n", "JSONDecodeError"),
        ("<!-- not run: why -->\n```console\n$ corpo-rl audit log --no-such-option\n```\n", "No such option"),
        ("<!-- not run: why -->\n```console\n$ corpo-rl no-such-command\n```\n", "no command 'no-such-command'"),
        ("<!-- not run: why -->\n```python\nfrom corpo_rl import no_such_name\n```\n", "no no_such_name in corpo_rl"),
        (
            "<!-- not run: why -->\n```python\nfrom corpo_rl.training.trl import CorpoTrainer, GRPOTrainers\n```\n",
            "no GRPOTrainers in corpo_rl.training.trl",
        ),
    ],
)
def test_a_block_that_is_wrong_is_found(run_text, text, error):
    assert error in run_text(text).error


def test_a_block_that_is_not_run_is_counted_with_its_reason(run_text):
    text = (
        '<!-- not run "sleep": takes a night -->\n```console\n$ sleep 30000\n$ true\n```\n\n'
        "<!-- not run: needs a cluster -->\n\n    corpo-rl audit runs/mine --min-correct 1\n"
    )
    found = run_text(text)
    assert (found.error, found.run) == ("", 1)
    assert found.not_run == ["line 2: takes a night", "line 9: needs a cluster"]


def test_a_wrong_page_ends_the_script_with_1(tmp_path):
    (tmp_path / "page.md").write_text("```console\n$ exit 3\n```\n")
    ran = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path / "page.md")], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "'exit 3' ended with 3" in json.loads(ran.stdout)["error"]


def test_commands_of_a_block_go_on_over_lines():
    block = docs_run.Block("console", "$ a \\\n    b\nout\n$ c\n", 1)
    assert [tuple(command) for command in docs_run.commands(block)] == [("a \\\n    b", "out"), ("c", None)]
