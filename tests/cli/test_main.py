import subprocess
import sys

import pytest

from corpo_rl.cli.main import COMMANDS


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "corpo_rl", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from corpo_rl.cli.main import cli\n"
        "result = CliRunner().invoke(cli, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "print([name for name in ('torch', 'trl', 'plotly', 'corpo_rl.experiment') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_command_has_help_with_an_example():
    for name in COMMANDS:
        result = run(name, "--help")
        assert result.returncode == 0, result.stderr
        assert f"corpo-rl {name}" in result.stdout or name == "pairs"


@pytest.mark.parametrize(
    "words",
    [(), *((name,) for name in COMMANDS), ("audit", "diff"), ("pairs", "gsm8k")],
    ids=lambda words: " ".join(words),
)
def test_help_fits_a_terminal_of_80_columns(words):
    shown = run(*words, "--help")
    assert shown.returncode == 0
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["compare", "--methods", "ppo"], 2, "error: --methods: expected names among"),
        (["compare", "--seeds", "one"], 2, "error: --seeds: expected whole numbers"),
        (["compare", "--scale", "small"], 2, "error: --pairs: expected the path of a pairs file"),
        (
            ["compare", "--pairs", "/no/such/file.jsonl"],
            1,
            "error: /no/such/file.jsonl: expected a readable pairs file",
        ),
        (["compare", "--steps", "0"], 2, "error: --steps: expected at least 1"),
        (["compare", "--min-correct", "nan"], 2, "error: --min-correct"),
        (["compare", "--nonsense"], 2, "No such option"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_a_wrong_call_is_one_line_and_an_exit_code(arguments, code, message, tmp_path):
    result = run(*arguments, *(["--out", str(tmp_path / "out")] if arguments[0] == "compare" else []))
    assert message in result.stderr
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    if message.startswith("error:"):
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists(), "a refused call leaves nothing behind"
