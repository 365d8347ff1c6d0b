import json

from corpo_rl.rollouts.copies import HEAD, copies
from corpo_rl.rollouts.files import find_files
from corpo_rl.rollouts.read import read_rollouts


def test_only_whole_copies_are_told_with_the_first_of_them(tmp_path):
    texts = {
        "a": "x" * HEAD + "1",
        "b": "x" * HEAD + "2",
        "c": "x" * HEAD + "1",
        "d": "short",
        "e": "shore",
        "f": "short",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    found = copies(find_files([tmp_path]))
    assert [(copy.path.stem, first.path.stem) for copy, first in found] == [("c", "a"), ("f", "d")]


def test_a_backup_beside_a_log_is_warned_of(tmp_path):
    """It is not left out: where the step is in the name of the file, two files may rightly be equal."""
    rows = "".join(json.dumps({"group_id": row // 4, "reward": row % 4 / 4}) + "\n" for row in range(40))
    (tmp_path / "run.jsonl").write_text(rows)
    assert read_rollouts([tmp_path]).warnings == ()
    (tmp_path / "run (copy).jsonl").write_text(rows)
    both = read_rollouts([tmp_path])
    assert both.n_rows == 80
    assert "is a copy of" in both.warnings[0]
    assert "leave one out" in both.warnings[0]
