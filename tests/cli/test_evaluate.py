import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from corpo_rl.cli.evaluate import RESULTS_FILE
from corpo_rl.cli.main import cli
from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.files import write_pairs
from corpo_rl.report.evaluation_schema import check_evaluation
from tests.assessment.scripted import ITEMS, fickle, hedging, item, perfect, scores, stream_of, unreadable
from tests.policies.fake_server import chat, fake_server, slowly

DOCS = Path(__file__).parents[2] / "docs" / "evaluation.md"
TRAINING = item(99, 1, 0, split="train")


class Policies:
    """Scripted policies in the place of real ones, by their specs, which count what they are asked."""

    def __init__(self):
        self.scripts = {"perfect": perfect, "hedging": hedging, "fickle": fickle, "unreadable": unreadable}
        self.asked = []
        self.opened = []
        self.settings = []

    def open(self, spec, **asking):
        self.opened.append((spec, asking))

        def stream(requests, sampling):
            self.settings.append(sampling)
            for sample in stream_of(self.scripts[spec.rsplit("/", 1)[-1]])(requests, sampling):
                self.asked.append(sample.key)
                yield sample

        return SimpleNamespace(name=spec, stream=stream)


@pytest.fixture
def policies(monkeypatch):
    scripted = Policies()
    monkeypatch.setitem(sys.modules, "corpo_rl.policies.opening", SimpleNamespace(open_policy=scripted.open))
    return scripted


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "set" / "pairs.jsonl"
    write_pairs(path, [*ITEMS, TRAINING])
    return path


def run(*arguments, out):
    return CliRunner().invoke(cli, ["evaluate", *map(str, arguments), "--out", str(out)])


def results(out):
    return json.loads((out / RESULTS_FILE).read_text())


def refused(kind, *arguments, out):
    result = run(*arguments, out=out)
    assert isinstance(result.exception, kind), result.exception
    assert result.stdout == ""
    message = str(result.exception)
    assert "\n" not in message
    return message


def test_files_table_and_json(policies, pairs, tmp_path):
    out = tmp_path / "out"
    result = run("perfect", "hedging", pairs.parent, "--both-orders", out=out)
    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith("[1] perfect\n[2] hedging\n")
    assert f"results  {out / 'results.json'}\nreport   {out / 'report.html'}\n" in result.stdout
    assert "22/22" in result.stderr, "11 pairs in two orders; the training pair is left alone"
    document = results(out)
    check_evaluation(document)
    assert document["settings"]["models"] == ["perfect", "hedging"]
    assert list(document["splits"]) == ["all", "in_domain", "ood"]
    assert document["splits"]["all"]["models"]["perfect"]["figures"]["pass@1"] == {
        "value": 1.0,
        "low": 1.0,
        "high": 1.0,
        "n": 11,
    }
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")
    again = run("perfect", "hedging", pairs.parent, "--both-orders", "--json", out=out)
    printed = json.loads(again.stdout)
    assert {**printed, "created": 0, "command": 0} == {**document, "created": 0, "command": 0}
    assert len(policies.asked) == 44, "the second call asks for nothing"
    assert [spec for spec, _ in policies.opened] == ["perfect", "hedging"], "and opens nothing"


def test_one_greedy_completion_or_several_drawn(policies, pairs, tmp_path):
    run("fickle", pairs, out=tmp_path / "one")
    run("fickle", pairs, "--n", 4, "--k", "4,2", "--max-new-tokens", 9, out=tmp_path / "four")
    assert [(one.temperature, one.max_new_tokens) for one in policies.settings] == [(0.0, 512), (1.0, 9)]
    document = results(tmp_path / "four")
    assert document["settings"]["k"] == [1, 2, 4]
    assert document["splits"]["all"]["models"]["fickle"]["n_completions"] == 44
    assert results(tmp_path / "one")["settings"]["k"] == [1]


def test_splits_and_limits(policies, pairs, tmp_path):
    run("perfect", pairs, "--split", "ood", "--limit", 3, out=tmp_path / "out")
    assert [split["n_pairs"] for split in results(tmp_path / "out")["splits"].values()] == [3]
    assert {key.split("/")[0] for key in policies.asked} == {"ood"}
    run("perfect", pairs, "--split", "train", out=tmp_path / "train")
    assert policies.asked[-1] == "train/99/ab/0"


def test_more_samples_orders_and_models_are_added(policies, pairs, tmp_path):
    out = tmp_path / "out"
    run("fickle", pairs, "--n", 2, out=out)
    first = list(policies.asked)
    run("fickle", "perfect", pairs, "--n", 3, "--both-orders", out=out)
    added = policies.asked[len(first) :]
    assert len(first) == 22
    assert len(added) == 11 * 3 * 2 - 22 + 11 * 3 * 2
    assert not set(first) & set(added[: 11 * 3 * 2 - 22])


def test_options_reach_the_policy(policies, pairs, tmp_path):
    run("perfect", pairs, "--batch-size", 3, "--concurrency", 2, "--timeout", 7, "--retries", 0, out=tmp_path / "out")
    assert policies.opened == [("perfect", {"batch_size": 3, "concurrency": 2, "timeout": 7.0, "retries": 0})]


def test_models_in_folders_of_the_same_name_are_kept_apart(policies, pairs, tmp_path):
    out = tmp_path / "out"
    names = ("runs/a/perfect", "runs-a/perfect", "runs/b/hedging")
    run(*names, pairs, out=out)
    folders = {json.loads(path.read_text())["model"]: path.parent.name for path in out.glob("*/settings.json")}
    assert set(folders) == set(names)
    assert len(set(folders.values())) == 3
    run(*reversed(names), pairs, out=out)
    assert len(policies.asked) == 33, "each finds its own folder again, in any order"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--seed", "1"], "seed 0, not 1"),
        (["--temperature", "0.5"], "temperature 0.0, not 0.5"),
        (["--max-new-tokens", "7"], "max_new_tokens 512, not 7"),
    ],
)
def test_other_settings_are_refused_until_forced(policies, pairs, tmp_path, changed, said):
    out = tmp_path / "out"
    run("perfect", pairs, out=out)
    message = refused(UsageError, "perfect", pairs, *changed, out=out)
    assert message == (f"{out / 'perfect'}: was begun with {said}; choose another --out, or begin anew with --force")
    assert len(policies.asked) == 11
    assert run("perfect", pairs, *changed, "--force", out=out).exit_code == 0
    assert len(policies.asked) == 22
    assert len((out / "perfect" / "samples.jsonl").read_text().splitlines()) == 11


def test_other_texts_of_the_same_pairs_are_refused(policies, pairs, tmp_path):
    out = tmp_path / "out"
    run("perfect", pairs, out=out)
    write_pairs(pairs, [*ITEMS[:3], replace(ITEMS[3], answer_a="a3 good indeed"), *ITEMS[4:]], force=True)
    message = refused(UsageError, "perfect", pairs, out=out)
    assert "was begun with another text of pair 'in_domain/3/ab/0'" in message


def test_results_of_another_command_are_not_replaced(policies, pairs, tmp_path):
    (tmp_path / "results.json").write_text('{"schema": "corpo-rl.compare/1"}')
    message = refused(UsageError, "perfect", pairs, out=tmp_path)
    assert message == (
        f"{tmp_path / 'results.json'}: expected results of `evaluate`, found 'corpo-rl.compare/1'; choose another --out"
    )
    assert policies.asked == []


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["perfect"], UsageError, "expected one model or more and then the pairs, found 'perfect' alone"),
        (["perfect", "PAIRS", "--k", "2"], UsageError, "--k 2: needs as many completions of each pair, found --n 1"),
        (["perfect", "PAIRS", "--k", "one"], UsageError, "--k: expected whole numbers with commas between them"),
        (["perfect", "PAIRS", "--k", "0"], UsageError, "--k: expected numbers of at least 1, got '0'"),
        (["perfect", "PAIRS", "--n", "2", "--temperature", "0"], UsageError, "--n 2 at --temperature 0: all would be"),
        (["perfect", "perfect", "PAIRS"], UsageError, "expected each model once, found one twice"),
        (["perfect", "nowhere.jsonl"], UsageError, "nowhere.jsonl: expected a pairs file, a folder of `pairs build`"),
        (["perfect", "PAIRS", "--split", "other_domain"], DataError, "expected pairs of split 'other_domain', found"),
        (["perfect", "PAIRS", "--labels", __file__], UsageError, "--labels and --problems: expected together with"),
        (["a", "b", "--best-of-n", "2", "--labels", __file__], UsageError, "--best-of-n: expected one model and no"),
    ],
)
def test_a_wrong_call_asks_for_nothing(policies, pairs, tmp_path, arguments, kind, message):
    arguments = [str(pairs) if word == "PAIRS" else word for word in arguments]
    assert message in refused(kind, *arguments, out=tmp_path / "out")
    assert policies.opened == []
    assert not (tmp_path / "out").exists()


def test_training_pairs_alone_are_not_taken_by_themselves(policies, tmp_path):
    write_pairs(tmp_path / "train.jsonl", [TRAINING])
    message = refused(DataError, "perfect", tmp_path / "train.jsonl", out=tmp_path / "out")
    assert message.endswith("expected pairs to evaluate on, found none but train; pass --split train")


def test_a_broken_pairs_file_is_named(policies, tmp_path):
    (tmp_path / "broken.jsonl").write_text("{")
    assert "broken.jsonl:1: expected a JSON object" in refused(
        DataError, "perfect", tmp_path / "broken.jsonl", out=tmp_path / "out"
    )


def test_what_does_not_parse_is_told_and_no_error(policies, pairs, tmp_path):
    result = run("unreadable", pairs, out=tmp_path / "out")
    assert result.exit_code == 0
    assert "11 of 11 not parsed (no_scores 11)" in result.stdout
    one = results(tmp_path / "out")["splits"]["all"]["models"]["unreadable"]
    assert one["figures"]["brier"] == {"value": None, "low": None, "high": None, "n": 0}


def test_best_of_n_takes_labels(policies, tmp_path):
    rows = [
        {
            "question": f"What is {number}?",
            "ground_truth": f"A: {number}",
            **{
                model: {"is_correct": right, "solution": f"{'good' if right else 'bad'}\nA: {number + 1 - right}"}
                for model, right in (("six", True), ("seven", False))
            },
        }
        for number in range(3)
    ]
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for _ in range(2):
        result = run("perfect", "--best-of-n", 2, "--labels", labels, out=tmp_path / "out")
        assert "Best of 2 answers to each of 3 problems" in result.stdout
        assert len(policies.asked) == 6
    assert json.loads((tmp_path / "out" / "best-of-n.json").read_text())["results"][0]["model"] == "perfect"
    run("perfect", "--best-of-n", 2, "--labels", labels, "--force", out=tmp_path / "out")
    assert len(policies.asked) == 12


def test_the_embedded_policy_on_its_own_sums(tmp_path):
    arguments = ("mini", "mini", "--both-orders", "--limit", "24", "--max-new-tokens", "12", "--batch-size", "128")
    result = run(*arguments, out=tmp_path)
    assert result.exit_code == 0, result.exception
    document = results(tmp_path)
    assert [document["splits"][name]["n_pairs"] for name in ("all", "in_domain", "ood", "other_domain")] == [
        72,
        *[24] * 3,
    ]
    one = document["splits"]["in_domain"]["models"]["mini"]
    assert one["n_parsed"] > 40
    assert one["figures"]["auroc"]["value"] > 0.55, "it was taught sums"


def served(body, number):
    """A verifier behind an endpoint: knows which answers are good."""
    prompt = body["messages"][0]["content"]
    parts = [prompt.split(f"Answer {letter}:\n")[1].split("\n")[0] for letter in "AB"]
    return 200, {}, chat(scores(*(9 if "good" in part else 2 for part in parts)))


def test_an_endpoint_by_its_models_name(pairs, tmp_path):
    with fake_server(served, models=("judge",)) as server:
        result = run(server.url, pairs, out=tmp_path)
        assert result.exit_code == 0, result.exception
        assert len(server.bodies) == 11
    with fake_server(served, models=("judge",)) as server:  # at another address
        assert run(f"{server.url}#judge", pairs, out=tmp_path).exit_code == 0
        assert server.bodies == []
    document = results(tmp_path)
    assert document["settings"]["models"] == ["judge"]
    assert document["splits"]["all"]["models"]["judge"]["figures"]["pass@1"]["value"] == 1


def test_an_endpoint_that_fails_keeps_what_came(pairs, tmp_path):
    def failing(body, number):
        return served(body, number) if number < 6 else (400, {}, {"error": {"message": "no more"}})

    with fake_server(failing, models=("judge",)) as server:
        message = refused(DataError, server.url, pairs, "--concurrency", "1", "--retries", "0", out=tmp_path)
    assert "no more" in message
    with fake_server(served, models=("judge",)) as server:
        assert run(server.url, pairs, out=tmp_path).exit_code == 0
        assert len(server.bodies) == 5


def test_kill_9_and_the_same_command_goes_on(pairs, tmp_path):
    out = tmp_path / "out"
    kept = out / "judge" / "samples.jsonl"
    with fake_server(slowly(served, 0.05), models=("judge",)) as server:
        words = [
            "evaluate",
            f"{server.url}#judge",
            str(pairs),
            "--both-orders",
            "--concurrency",
            "1",
            "--out",
            str(out),
        ]
        command = [sys.executable, "-m", "corpo_rl", *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not kept.exists() or kept.read_bytes().count(b"\n") < 4):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        before = kept.read_bytes()
        n_before = before.count(b"\n")
        assert 4 <= n_before < 22
        assert not (out / RESULTS_FILE).exists()
        kept.write_bytes(before + b'{"split": "in_dom')  # a line torn by the kill
        n_asked = len(server.bodies)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert len(server.bodies) - n_asked == 22 - n_before, "what was kept is not asked again"
    assert "22/22" in done.stderr
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len({(row["split"], row["item_id"], row["order"], row["sample"]) for row in rows}) == len(rows) == 22
    assert kept.read_bytes().startswith(before)
    assert results(out)["splits"]["all"]["models"]["judge"]["figures"]["pass@1"] == {
        "value": 1.0,
        "low": 1.0,
        "high": 1.0,
        "n": 11,
    }


def test_the_documentation_names_every_option_and_field_of_a_line(policies, pairs, tmp_path):
    named = set(re.findall(r"`(-{0,2}[\w-]+)`", DOCS.read_text(encoding="utf-8")))
    help_text = CliRunner().invoke(cli, ["evaluate", "--help"]).stdout
    options = set(re.findall(r"^  (--[a-z-]+)", help_text, re.MULTILINE))
    assert options - named <= {"--json", "--best-of-n", "--labels", "--problems", "--method"}
    run("perfect", pairs, out=tmp_path / "out")
    row = json.loads((tmp_path / "out" / "perfect" / "samples.jsonl").read_text().splitlines()[0])
    settings = set(results(tmp_path / "out")["settings"])
    assert (row.keys() | settings) - named == set()
