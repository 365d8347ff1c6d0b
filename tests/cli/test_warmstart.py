import pytest
from click.testing import CliRunner

from corpo_rl.cli.warmstart import warmstart
from corpo_rl.errors import DataError, UsageError
from corpo_rl.policies.local import load_policy


def invoke(*arguments):
    return CliRunner().invoke(warmstart, [str(argument) for argument in arguments])


def test_a_tiny_build_is_measured_and_loads(tmp_path, monkeypatch):
    monkeypatch.setattr("corpo_rl.cli.warmstart.SAMPLES_PER_ITEM", 1)
    monkeypatch.setattr("corpo_rl.cli.warmstart.TRAIN_ITEMS", 10)
    result = invoke("--out", tmp_path / "base", "--clean-steps", 1, "--soft-steps", 1)
    assert result.exit_code == 0, result.output
    rows = [line.split("|")[1:-1] for line in result.stdout.splitlines() if line.startswith("|")]
    assert [[cell.strip() for cell in row[:2]] for row in rows[2:]] == [
        ["in_domain", "196"],
        ["ood", "98"],
        ["other_domain", "157"],
        ["train", "10"],
    ]
    # two steps teach nothing: no completion parses, so that no share of hedges among the parsed ones is defined
    assert all(float(row[-1]) > 0.9 for row in rows[2:])
    assert "Of 10 training items in groups of 8: all failed 1.00" in result.stdout
    assert "training the base" in result.stderr
    readme = (tmp_path / "base" / "README.md").read_text()
    assert result.stdout.strip() in readme
    assert "--seed 0 --clean-steps 1 --soft-steps 1" in readme
    assert load_policy(str(tmp_path / "base")).tokenizer.vocab_size == 21


def test_files_are_not_overwritten_unasked(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = invoke("--out", tmp_path)
    assert isinstance(result.exception, UsageError)
    assert "expected a new or empty folder, found files; choose another or pass --force" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_made_is_named_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke("--out", tmp_path / "file" / "base")
    assert isinstance(result.exception, DataError)
    assert "expected a folder that can be written, got: Not a directory" in str(result.exception)


@pytest.mark.parametrize("arguments", [(), ("--out", "x", "--seed", "-1"), ("--out", "x", "--threads", "0")])
def test_bad_usage_exits_with_2(arguments):
    assert invoke(*arguments).exit_code == 2
