import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from corpo_rl.cli.main import cli
from corpo_rl.errors import DataError, UsageError
from corpo_rl.report.task_text import task_text
from corpo_rl.report.text import columns_of
from corpo_rl.tasks.puzzle_list import PUZZLES, REFUSED

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SPELLING = next(
    code for code in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL) if "class Spelling" in code
)

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")

ROWS = [
    {
        "instruction": f"Write {number}, 漢字 and more, " + "long " * 30,
        "response": "Done.\x1b[2J\n" * 30,
        "rubric": "Is it done?",
        "score": 1 + number % 5,
        "split": "in_domain" if number > 6 else "train",
    }
    for number in range(9)
]


@pytest.fixture
def graded(tmp_path):
    path = tmp_path / "graded.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def spelling(tmp_path):
    path = tmp_path / "my_task.py"
    path.write_text(SPELLING, encoding="utf-8")
    return path


def run(*arguments):
    return CliRunner().invoke(cli, ["task", *map(str, arguments)])


def refused(kind, *arguments):
    """The message of a refused call, which prints nothing to stdout."""
    result = run(*arguments)
    assert isinstance(result.exception, kind), result.exception
    assert result.stdout == ""
    return str(result.exception)


def test_mini_in_words():
    result = run("mini", "--items", "3")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert "mini: correct is a reward of 0.2 or more; what does not parse gets -1" in text
    assert re.search(r"^train +4,890 +3$", text, flags=re.MULTILINE)
    assert "  | 86+32?118|127:" in text
    assert "right             0.2  0;6,4" in text
    assert "junk               -1  nothing (empty)" in text
    # twelve items: each right twice, wrong six times, and seven pieces of junk
    assert "The proof holds: 24 right, 72 wrong and 84 junk completions got what they\nshould." in text


def test_json_has_all_of_it_and_gives_the_same_text():
    result = run("mini", "--items", "2", "--show", "2", "--json")
    document = json.loads(result.stdout)
    assert (document["schema"], document["name"], document["holds"]) == ("corpo-rl.task/1", "mini", True)
    assert document["splits"]["ood"] == {"items": 98, "proved": 2}
    assert [(shown["split"], shown["place"]) for shown in document["shown"]] == [("train", 0), ("train", 1)]
    first = document["shown"][0]["examples"][0]
    assert (first["text"], first["right"], first["reward"], first["correct"]) == ("0;10,0", True, 1, True)
    assert first["measures"]["brier"] == 0
    assert [level["reward"] for level in document["rewards"]] == [-1, 0, 0.2, 1]
    assert task_text(document) == run("mini", "--items", "2", "--show", "2").stdout


def test_another_threshold_or_reward():
    result = run("mini", "--reward", "brier", "--items", "1")
    assert "correct is a reward of 0.68 or more" in result.stdout
    assert result.exit_code == 0
    result = run("mini", "--min-correct", "0.5", "--items", "1", "--show", "0")
    assert result.exit_code == 1
    assert "- a right example is not correct, 4 x. train 0: the example '0;6,4' got 0.2" in result.stdout
    assert "its prompt" not in result.stdout


def test_rubric_file_fits_the_screen_and_does_not_move_its_cursor(graded):
    result = run("rubric", "--data", graded, "--show", "3", "--items", "0")
    assert result.exit_code == 0, result.output
    assert max(columns_of(line) for line in result.stdout.split("\n")) <= 80
    assert "\x1b" not in result.stdout
    assert re.search(r"^    and \d+ more lines$", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^in_domain +2 +2$", result.stdout, flags=re.MULTILINE)


def test_a_users_task(spelling):
    result = run(f"{spelling}:Spelling")
    assert result.exit_code == 0, result.output
    assert "note: The task has no method examples(item)" in result.stdout
    assert "The proof holds: 0 right, 0 wrong and 35 junk completions" in result.stdout


def test_a_users_task_that_is_wrong_about_itself_fails(spelling):
    with spelling.open("a", encoding="utf-8") as file:
        file.write("\n    def examples(self, item):\n        return [(item, True), (item[::-1], False)]\n")
    result = run(f"{spelling}:Spelling")
    assert result.exit_code == 1
    assert "The proof does not hold, over 5 right, 5 wrong and 35 junk completions:" in result.stdout
    assert "- a right example is not correct, 5 x. train 0: the example 'stone' got 0.2" in result.stdout
    assert "- a wrong example is correct, 5 x. train 0: the example 'enots' got 1" in result.stdout


def test_a_users_task_that_falls_over_is_shown_to(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(
        SPELLING.replace("name, min_correct, unparsable_reward =", "name, unparsable_reward, min_correct =").replace(
            '"spelling", 1.0, -1.0', '"spelling", -1.0, None'
        )
    )
    result = run(f"{path}:Spelling")
    assert result.exit_code == 1
    assert "- a threshold is no finite number, 1 x. min_correct: found None" in result.stdout
    assert "No completion was graded." in result.stdout


def test_puzzles():
    pytest.importorskip("reasoning_gym", reason="the puzzles are made by reasoning-gym (extra puzzles)")
    result = run("puzzles:word_sorting", "--items", "2")
    assert result.exit_code == 0, result.output
    assert re.search(r"^train +1,000 +2$", result.stdout, flags=re.MULTILINE)
    assert "puzzles: gcd is not taken" in refused(UsageError, "puzzles:gcd")


def test_refusals_are_one_line(graded, tmp_path):
    assert "expected the path of a file of rubric items" in refused(UsageError, "rubric")
    assert "--task: expected mini, pairs, rubric" in refused(UsageError, "minni")
    assert "could not be read" in refused(DataError, "rubric", "--data", tmp_path / "none.jsonl")
    graded.write_text('{"instruction": 3}')
    assert "graded.jsonl:1: instruction: expected text, found 3" in refused(DataError, "rubric", "--data", graded)


def test_the_page_shows_what_the_commands_print(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(code.split("\n")) <= 55
    (tmp_path / "my_task.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    checked, whole = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    commands = re.findall(r"^\$ corpo-rl task (.*)$", PAGE, flags=re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["my_task.py:Change"] * 2
    results = [run(*command.split()) for command in commands]
    assert [result.exit_code for result in results] == [0, 1]
    assert results[0].stdout.startswith(checked)
    assert results[1].stdout.endswith(whole)


def test_the_page_fixes_what_it_finds(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    fixed = code.replace("Coins: 25, 5, 1", "Coins: <coin>, <coin>, ...")
    assert fixed != code
    (tmp_path / "fixed.py").write_text(fixed, encoding="utf-8")
    result = run(f"{tmp_path / 'fixed.py'}:Change", "--items", "0")
    assert result.exit_code == 0, result.output


def test_the_page_has_every_puzzle_and_every_form_of_a_row(tmp_path):
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|$", PAGE, flags=re.MULTILINE))
    assert rows == {name: puzzle.score for name, puzzle in PUZZLES.items()}
    assert f"Of its {len(PUZZLES) + len(REFUSED)} puzzles fourteen are taken" in PAGE
    assert len(PUZZLES) == 14
    (row,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    path = tmp_path / "graded.jsonl"
    path.write_text(row + json.dumps({**ROWS[0], "split": "ood"}), encoding="utf-8")
    assert run("rubric", "--data", path).exit_code == 0
