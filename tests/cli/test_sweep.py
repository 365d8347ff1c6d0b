"""The command: its options, one line for bad input, the progress it tells. tests/sweep/test_real_runs.py trains."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from corpo_rl.cli import sweep as command
from corpo_rl.cli.main import cli
from corpo_rl.cli.sweep import sweep
from corpo_rl.errors import CorpoError, MissingExtraError
from corpo_rl.experiment.folder import locked, write_json
from corpo_rl.experiment.settings import SCALES, check_methods
from corpo_rl.sweep.plan import DIRECTIONS
from corpo_rl.sweep.search import Status
from corpo_rl.sweep.study import Trial
from tests.sweep.written import Written

pytest.importorskip("optuna", reason="needs corpo-rl[sweep]")


def run(*arguments):
    return CliRunner().invoke(sweep, [str(argument) for argument in arguments])


def error_of(*arguments):
    result = run(*arguments)
    assert isinstance(result.exception, CorpoError), result.output
    assert "\n" not in str(result.exception)
    return result.exception


def test_choices_written_out_for_a_quick_help_are_the_real_ones():
    (scale,) = (option for option in sweep.params if option.name == "scale")
    assert list(scale.type.choices) == list(SCALES)
    check_methods((command.DEFAULT_METHODS,))
    assert {"mean_reward", "brier"} <= set(DIRECTIONS)


def test_help_has_examples_and_fits_the_terminal():
    result = CliRunner().invoke(cli, ["sweep", "--help"], terminal_width=80)
    assert result.exit_code == 0
    assert "corpo-rl sweep --method corpo,static --group-size 4,8,16 --sampler grid" in result.output
    assert max(map(len, result.output.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to search: give a dimension more than one value"),
        (["--method=corpo,grop"], "--methods: expected names among"),
        (["--learning-rate=fast,slow"], "--learning-rate: expected a finite number"),
        (["--learning-rate=1e-3:1e-4"], "--learning-rate: expected a range LOW:HIGH"),
        (["--group-size=4,12"], "--group-size: 12 does not divide the 256 rollouts of a step"),
        (["--group-size=4,8", "--seeds=0,zero"], "--seeds: expected whole numbers with commas"),
        (["--group-size=4,8", "--seeds=0,0"], "--seeds: expected each number once"),
        (["--group-size=4,8", "--confirm-seeds=0,1"], "--confirm-seeds: expected seeds that no trial had, but 0"),
        (["--group-size=4,8", "--trials=0"], "--trials: expected at least 1, got 0"),
        (["--group-size=4,8", "--jobs=0"], "--jobs: expected at least 1, got 0"),
        (["--group-size=4,8", "--seed-jobs=0"], "--seed-jobs: expected at least 1, got 0"),
        (["--group-size=4,8", "--sampler=luck"], "--sampler: expected one of tpe, random, grid"),
        (["--group-size=4,8", "--objective=joy"], "--objective: 'joy' is not among"),
        (["--group-size=4,8", "--split=train"], "--split: expected one of in_domain"),
        (["--group-size=4,8", "--steps=0"], "--steps: expected at least 1, got 0"),
        (["--group-size=4,8", "--prompts-per-step=0"], "--prompts-per-step: expected at least 1, got 0"),
        (["--learning-rate=1e-4:1e-3", "--sampler=grid"], "--learning-rate: a grid needs values"),
        (["--group-size=4,8", "--task=nonsense"], "--task: expected mini, pairs, rubric, code"),
        (["--group-size=4,8", "--task=code"], "--data: expected the path of a file of problems with tests"),
        (["--group-size=4,8", "--task=puzzles:"], "--task: expected puzzles:NAME[,NAME...], got no name"),
        (["--group-size=4,8", "--scale=small"], "--pairs: expected the path of a pairs file"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    assert message in str(error_of("--out", tmp_path / "out", *arguments))


def test_without_optuna_the_command_to_install_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "optuna" else object())
    error = error_of("--group-size=4,8", "--out", tmp_path / "out")
    assert isinstance(error, MissingExtraError)
    assert "corpo-rl[sweep]" in str(error)


@pytest.fixture
def quick(monkeypatch):
    """Nothing is trained: files say that every run was right half of the time."""
    writer = Written()

    def write(out, settings, **options):
        writer(out, settings, **options)
        write_json(out / "base" / "environment.json", {"python": "3"})

    monkeypatch.setattr("corpo_rl.sweep.trial.run_all", write)


SMALL = ["--group-size=4,8,16", "--samples=4", "--eval-items=20"]


def test_a_sweep_leaves_text_results_and_a_page(tmp_path, quick):
    out = tmp_path / "out"
    result = run("--out", out, *SMALL, "--trials=6", "--seeds=0,1")
    assert result.exit_code == 0, result.exception
    results = json.loads((out / "results.json").read_text())
    assert [trial["number"] for trial in results["trials"]] == list(range(6))
    assert results["confirmation"]["seeds"] == [2, 3], "as many fresh ones as --seeds"
    assert results["settings"]["curve_every"] == 0
    assert "pass@1 of trial" in result.stdout
    assert str(out / "report.html") in result.stdout
    assert "trial 0 of 6: 0.5000 (group_size" in result.stderr
    assert "confirm trial" in result.stderr


def test_json_goes_to_stdout_alone(tmp_path, quick):
    result = run("--out", tmp_path / "out", *SMALL, "--trials=2", "--confirm-seeds=none", "--json")
    results = json.loads(result.stdout)
    assert results["confirmation"] is None
    assert results["settings"]["n_trials"] == 2


def test_a_grid_is_tried_whole(tmp_path, quick):
    result = run("--out", tmp_path / "out", *SMALL, "--method=corpo,static", "--sampler=grid", "--json")
    trials = json.loads(result.stdout)["trials"]
    assert len(trials) == 6
    assert all(trial["same_as"] is None for trial in trials)
    # MINI has 256 rollouts a step: they stay, whatever the group size
    assert all(trial["params"]["group_size"] * trial["prompts_per_step"] == 256 for trial in trials)


def test_more_trials_may_be_asked_for_and_another_sweep_needs_force(tmp_path, quick):
    out = tmp_path / "out"
    first = json.loads(run("--out", out, *SMALL, "--trials=2", "--json").stdout)
    more = json.loads(run("--out", out, *SMALL, "--trials=4", "--json").stdout)
    assert [one["params"] for one in more["trials"][:2]] == [one["params"] for one in first["trials"]]
    assert len(more["trials"]) == 4
    assert "holds another sweep" in str(error_of("--out", out, *SMALL, "--trials=4", "--sampler=random"))
    again = run("--out", out, *SMALL, "--trials=1", "--sampler=random", "--force", "--json")
    assert len(json.loads(again.stdout)["trials"]) == 1


def test_two_sweeps_do_not_share_a_folder(tmp_path, quick):
    with locked(tmp_path / "out"):
        assert "another process is at work here" in str(error_of("--out", tmp_path / "out", *SMALL))


def test_a_bar_shows_the_best_and_what_runs(monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    shown = []

    class Bar:
        n = 0

        def __init__(self, **options):
            assert options["total"] == 3

        def set_description_str(self, text):
            shown.append((text, self.n))

        def close(self):
            shown.append(("closed", self.n))

    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(sys, "stderr", Terminal())
    trials = [
        Trial(0, "finished", {"group_size": 4}, 0.25, None, None),
        Trial(1, "failed", {"group_size": 8}, None, None, "diverged"),
        Trial(2, "running", {"group_size": 16}, None, None, None),
    ]
    with command._Bar(3, minimize=False) as bar:
        bar.say("starting policy", "evaluate 1/3")
        bar.show(Status(trials, 3, {2: "train 5/100"}))
    assert shown == [("starting policy: evaluate 1/3", 0), ("best 0.250 #2 train 5/100", 2), ("closed", 2)]


def test_the_page_names_every_option():
    page = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text()
    searched = {"--method", "--learning-rate", "--group-size", "--min-correct", "--judged-by", "--hold", "--trials"}
    rest = {"--seeds", "--confirm-seeds", "--objective", "--direction", "--split", "--sampler", "--sampler-seed"}
    running = {"--jobs", "--seed-jobs", "--ray", "--keep-policies", "--force"}
    flags = {flag for option in sweep.params for flag in option.opts}
    for flag in searched | rest | running:
        assert flag in flags
        assert f"`{flag}" in page, flag
