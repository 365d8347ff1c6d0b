"""The same model behind a real OpenAI-compatible server and in memory: the same completions, and the same figures."""

import json

import pytest
from click.testing import CliRunner

from corpo_rl.cli.main import cli
from corpo_rl.pairs.files import write_pairs
from corpo_rl.records import VerifierItem
from tests.policies.serving import needs_server, smollm2_server

# short, so that a model on the CPU is done in seconds
PAIRS = [
    VerifierItem("1", "What is 2+2?", "4", "5", 1, 0, "sums", "in_domain"),
    VerifierItem("2", "What is 3+5?", "9", "8", 0, 1, "sums", "in_domain"),
    VerifierItem("3", "Name an even number.", "6", "10", 1, 1, "numbers", "ood"),
    VerifierItem("4", "Name a colour.", "seven", "Tuesday", 0, 0, "words", "ood"),
]


def rows_of(folder):
    return sorted(
        (row["split"], row["item_id"], row["order"], row["text"], row["finish_reason"])
        for row in map(json.loads, (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines())
    )


@needs_server
@pytest.mark.timeout(600)
def test_a_served_model_is_evaluated_as_the_model_itself(tmp_path):
    write_pairs(tmp_path / "pairs.jsonl", PAIRS)

    def evaluated(model, out):
        arguments = [model, str(tmp_path / "pairs.jsonl"), "--max-new-tokens", "12", "--out", str(out)]
        result = CliRunner().invoke(cli, ["evaluate", *arguments])
        assert result.exit_code == 0, result.exception
        (folder,) = [path.parent for path in out.glob("*/samples.jsonl")]
        document = json.loads((out / "results.json").read_text())
        (name,) = document["settings"]["models"]
        figures = {split: found["models"][name] for split, found in document["splits"].items()}
        return (
            rows_of(folder),
            figures,
            document["examples"][name],
        )

    local = evaluated("smollm2", tmp_path / "local")
    with smollm2_server(tmp_path / "serve.log") as url:
        served = evaluated(url, tmp_path / "served")
    assert len(local[0]) == 4
    assert all(text for *_, text, _ in local[0]), "it must have said something"
    assert served == local
