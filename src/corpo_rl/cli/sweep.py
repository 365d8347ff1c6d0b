"""`corpo-rl sweep`: search settings, then say how sure the best one is."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corpo_rl.cli.extras import SMALL, TRAINING, check_extras, needs_of_task
from corpo_rl.cli.task_options import folder_of, task_options, with_task
from corpo_rl.errors import UsageError

if TYPE_CHECKING:
    from corpo_rl.experiment.settings import Settings
    from corpo_rl.sweep.engines import Engine
    from corpo_rl.sweep.plan import Plan
    from corpo_rl.sweep.search import Status
    from corpo_rl.sweep.space import Dimension

DEFAULT_METHODS = "corpo"
DEFAULT_TRIALS = 20


@click.command()
@click.option(
    "--scale",
    type=click.Choice(["mini", "small"]),
    default="mini",
    show_default=True,
    help="Preset of everything that is not searched: the embedded policy on sums, or SmolLM2-135M on --pairs.",
)
@task_options
@click.option("--policy", help="mini, smollm2, a local model folder, or a hub id.")
@click.option(
    "--method",
    default=DEFAULT_METHODS,
    show_default=True,
    metavar="LIST",
    help="Methods to search, as in compare --methods. Scales, floors and numbers are part of the name: "
    "corpo,corpo+batch_std,qae=0.4+floor.",
)
@click.option("--learning-rate", metavar="SPACE", help="Learning rates: A,B,C or LOW:HIGH or LOW:HIGH:log.")
@click.option("--group-size", metavar="LIST", help="Completions per prompt: 4,8,16.")
@click.option(
    "--min-correct", metavar="SPACE", help="Thresholds to train with: A,B,C or LOW:HIGH.  [default: the task's]"
)
@click.option(
    "--judged-by",
    type=float,
    help="Least reward that counts as correct when trials are judged, the same for all.  "
    "[default: --min-correct where that is one value, else the task's]",
)
@click.option(
    "--hold",
    default="rollouts",
    show_default=True,
    metavar="WHAT",
    help="What a step keeps when the group size changes: its rollouts, or its prompts.",
)
@click.option("--trials", type=int, help=f"Trials in all.  [default: {DEFAULT_TRIALS}, or the whole grid]")
@click.option("--seeds", default="0", show_default=True, help="Training seeds of every trial.")
@click.option(
    "--confirm-seeds",
    metavar="SEEDS",
    help="Fresh seeds to train the best setting under again; none for no such run."
    "  [default: as many as --seeds, the next ones]",
)
@click.option("--objective", default="pass@1", show_default=True, help="Figure to choose by: mean_reward, brier, ...")
@click.option("--direction", type=click.Choice(["maximize", "minimize"]), help="For a measure of your task's own.")
@click.option("--split", default="in_domain", show_default=True, help="Split whose items are halved to choose by.")
@click.option("--sampler", default="tpe", show_default=True, metavar="NAME", help="tpe, random or grid.")
@click.option("--sampler-seed", type=int, default=0, show_default=True, help="Decides which settings are tried.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the sweep.  [default: runs/sweep-SCALE, or runs/sweep-TASK]",
)
@click.option("--steps", type=int, help="Optimizer steps of each run.")
@click.option("--prompts-per-step", type=int, help="Prompts per optimizer step at the preset's group size.")
@click.option("--micro-batch", type=int, help="Most rollouts per forward and backward pass.")
@click.option("--temperature", type=float, help="Of training and evaluation.")
@click.option("--max-new-tokens", type=int, help="Completion length limit.")
@click.option("--max-prompt-tokens", type=int, help="Longer items are left out, and counted.")
@click.option("--warmup-steps", type=int, help="Supervised steps that teach the answer's form first; 0 for none.")
@click.option("--lora-rank", type=int, help="Rank of LoRA adapters; 0 trains all weights.")
@click.option("--samples", "samples_per_item", type=int, help="Completions per item in the evaluation.")
@click.option("--k", type=int, help="The k of pass@k, beside pass@1.")
@click.option("--eval-items", type=int, help="Items per split in the evaluation; 0 for all.")
@click.option("--checkpoint-every", type=int, help="Steps between checkpoints.")
@click.option("--threads", type=int, help="Torch threads of each run.")
@click.option("--jobs", type=int, help="Trials side by side; above 1 the search depends on their speed.  [default: 1]")
@click.option("--seed-jobs", type=int, default=1, show_default=True, help="Seeds of a trial side by side.")
@click.option("--ray", "ray_address", metavar="ADDRESS", help="Run trials on this Ray cluster (local: start one here).")
@click.option("--keep-policies", is_flag=True, help="Keep the trained weights of every trial.")
@click.option("--force", is_flag=True, help="Replace another sweep in --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of text.")
def sweep(
    scale: str,
    method: str,
    learning_rate: str | None,
    group_size: str | None,
    min_correct: str | None,
    judged_by: float | None,
    hold: str,
    trials: int | None,
    seeds: str,
    confirm_seeds: str | None,
    objective: str,
    direction: str | None,
    split: str,
    sampler: str,
    sampler_seed: int,
    out: Path | None,
    jobs: int | None,
    seed_jobs: int,
    ray_address: str | None,
    keep_policies: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Search the method, learning rate, group size and threshold, and say how sure the best setting is.

    Each trial is trained under all --seeds and judged on one half of a split. The best setting is then trained again
    under fresh seeds and judged on the other half and the other splits, for a figure that is not the luckiest of many.
    What is not searched is as in the preset of --scale. A killed sweep goes on with the same command and, one trial at
    a time, finds the same; --trials may be raised later.

    \b
    Examples:
      corpo-rl sweep --learning-rate 1e-4:1e-3:log --trials 20
      corpo-rl sweep --method corpo,static --group-size 4,8,16 --sampler grid
      corpo-rl sweep --method corpo --min-correct=-0.2,0.2,0.6 --seeds 0,1
      corpo-rl sweep --method corpo,corpo+batch_std \\
        --learning-rate 1e-4:1e-3:log --jobs 4
      corpo-rl sweep --scale small --pairs pairs.jsonl \\
        --learning-rate 1e-4:1e-3:log
      corpo-rl sweep --learning-rate 1e-4:1e-3:log --ray 10.0.0.1:6379 \\
        --out /shared/sweep
    """
    from corpo_rl.experiment.folder import locked
    from corpo_rl.experiment.settings import SCALES
    from corpo_rl.sweep.plan import prepare_sweep

    numbers = _seeds(seeds, "--seeds")
    fresh = _confirm_seeds(confirm_seeds, numbers)
    settings = _settings(SCALES[scale], options)
    dimensions = _dimensions(
        settings, method=method, learning_rate=learning_rate, group_size=group_size, min_correct=min_correct
    )
    n_trials = _n_trials(trials, dimensions, sampler)
    ray = [] if ray_address is None else [("ray", "ray")]
    small = SMALL if settings.policy == "smollm2" else ()
    check_extras("corpo-rl sweep", [("optuna", "sweep"), *small, *TRAINING, *needs_of_task(settings.task), *ray])
    name = folder_of(settings.task, scale=scale, preset_task=SCALES[scale].task)
    out = out or Path("runs") / f"sweep-{name}"
    if force and (out / "sweep.json").exists():
        shutil.rmtree(out)
    with locked(out):
        plan = prepare_sweep(
            out,
            settings,
            dimensions,
            judged_by=judged_by,
            seeds=numbers,
            objective=objective,
            direction=direction,
            split=split,
            sampler=sampler,
            sampler_seed=sampler_seed,
            hold=hold,
        )
        with _engine(out, plan, ray_address, jobs=jobs, seed_jobs=seed_jobs, keep_policies=keep_policies) as engine:
            results = _search(out, plan, engine, n_trials=n_trials, confirm_seeds=fresh)
        _write_reports(out, results, as_json=as_json)


def _seeds(text: str, flag: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{flag}: expected whole numbers with commas between them, got {text!r}") from None
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise UsageError(f"{flag}: expected each number once, at least 0, got {text!r}")
    return seeds


def _confirm_seeds(text: str | None, seeds: Sequence[int]) -> tuple[int, ...]:
    if text is None:
        return tuple(range(max(seeds) + 1, max(seeds) + 1 + len(seeds)))
    if text.strip() == "none":
        return ()
    fresh = _seeds(text, "--confirm-seeds")
    again = sorted(set(fresh) & set(seeds))
    if again:
        raise UsageError(f"--confirm-seeds: expected seeds that no trial had, but {again[0]} is among --seeds too")
    return fresh


def _settings(preset: "Settings", options: dict[str, Any]) -> "Settings":
    given = with_task({name: value for name, value in options.items() if value is not None}, preset_task=preset.task)
    if "samples_per_item" in given and "k" not in given:
        given["k"] = min(preset.k, given["samples_per_item"])
    rollouts = preset.group_size * given.get("prompts_per_step", preset.prompts_per_step)
    if "micro_batch" not in given and rollouts > 0:
        most = min(preset.micro_batch, rollouts)
        given["micro_batch"] = max(size for size in range(1, most + 1) if rollouts % size == 0)
    # a sweep reads no curves, and evaluations while training cost as much as the training
    return replace(preset, **{"curve_every": 0, **given})


def _dimensions(settings: "Settings", **texts: str | None) -> list["Dimension"]:
    from corpo_rl.sweep.space import NAMES, parse_dimension

    given = {name: text for name in NAMES if (text := texts[name]) is not None}
    return [parse_dimension(name, text) for name, text in given.items()]


def _n_trials(trials: int | None, dimensions: Sequence["Dimension"], sampler: str) -> int:
    from corpo_rl.sweep.space import grid

    if trials is not None and trials < 1:
        raise UsageError(f"--trials: expected at least 1, got {trials}")
    if sampler != "grid":
        if all(len(dimension.choices) == 1 for dimension in dimensions):
            raise UsageError("nothing to search: give a dimension more than one value, as in --learning-rate 1e-4,1e-3")
        return DEFAULT_TRIALS if trials is None else trials
    whole = sum(1 for _ in grid(dimensions))
    return whole if trials is None else min(trials, whole)


def _engine(
    out: Path, plan: "Plan", address: str | None, *, jobs: int | None, seed_jobs: int, keep_policies: bool
) -> AbstractContextManager["Engine"]:
    from corpo_rl.sweep.engines import here, on_ray, ray_is_connected

    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs: expected at least 1, got {jobs}")
    if seed_jobs < 1:
        raise UsageError(f"--seed-jobs: expected at least 1, got {seed_jobs}")
    if address is not None or ray_is_connected():
        return on_ray(out, plan, address=address, slots=jobs, seed_jobs=seed_jobs, keep_policies=keep_policies)
    return here(out, plan, slots=jobs or 1, seed_jobs=seed_jobs, keep_policies=keep_policies)


def _search(
    out: Path, plan: "Plan", engine: "Engine", *, n_trials: int, confirm_seeds: Sequence[int]
) -> dict[str, Any]:
    from corpo_rl.sweep.results import chosen_trial, collect
    from corpo_rl.sweep.search import run_one, search
    from corpo_rl.sweep.study import Study
    from corpo_rl.sweep.trial import Work

    study = Study(out, plan)
    try:
        with _Bar(n_trials, minimize=plan.minimize) as bar:
            run_one(out, Work("start"), engine=engine, tell=lambda stage: bar.say("starting policy", stage))
            trials = search(out, study, n_trials=n_trials, engine=engine, tell=bar.show)
            best = chosen_trial(trials, minimize=plan.minimize)
            if best is not None and confirm_seeds:
                work = Work("confirm", best.number, best.params, tuple(confirm_seeds))
                run_one(out, work, engine=engine, tell=lambda stage: bar.say(f"confirm trial {work.number}", stage))
        return collect(
            out,
            plan,
            study,
            n_trials=n_trials,
            confirm_seeds=confirm_seeds,
            jobs=engine.slots,
            command=shlex.join(["corpo-rl", *sys.argv[1:]]),
        )
    finally:
        study.close()


def _write_reports(out: Path, results: dict[str, Any], *, as_json: bool) -> None:
    import json

    from corpo_rl.experiment.folder import write_text
    from corpo_rl.report.sweep_html import sweep_html
    from corpo_rl.report.sweep_schema import check_sweep, sweep_json
    from corpo_rl.report.sweep_text import sweep_text

    text = sweep_json(results)
    document = json.loads(text)
    check_sweep(document)
    write_text(out / "results.json", text)
    write_text(out / "report.html", sweep_html(document))
    click.echo(text if as_json else sweep_text(document), nl=False)
    click.echo(f"\nresults  {out / 'results.json'}\nreport   {out / 'report.html'}", err=as_json)


class _Bar:
    """One bar over the trials on stderr; plain lines where stderr is no terminal."""

    def __init__(self, n_trials: int, *, minimize: bool) -> None:
        self._total = n_trials
        self._minimize = minimize
        self._bar: Any = None
        self._told: set[str] = set()

    def __enter__(self) -> "_Bar":
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=self._total,
                bar_format="{desc:<44}{bar}{n_fmt:>4}/{total_fmt} {elapsed}<{remaining}",
                dynamic_ncols=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def say(self, what: str, stage: str) -> None:
        """Something that is no trial is at this stage."""
        if self._bar is not None:
            self._bar.set_description_str(f"{what}: {stage}"[:44])
        else:
            self._line(what)

    def show(self, status: "Status") -> None:
        """The trials are so far."""
        from corpo_rl.sweep.results import chosen_trial

        done = [trial for trial in status.trials if trial.state != "running"]
        if self._bar is None:
            for trial in done:
                same = "" if trial.same_as is None else f", as trial {trial.same_as}"
                worth = f"failed: {trial.reason}" if trial.value is None else f"{trial.value:.4f}"
                params = ", ".join(f"{name} {_short(value)}" for name, value in trial.params.items())
                self._line(f"trial {trial.number} of {status.n_trials}: {worth}{same} ({params})")
            return
        best = chosen_trial(status.trials, minimize=self._minimize)
        leading = "" if best is None or best.value is None else f"best {best.value:.3f} "
        running = "; ".join(f"#{number} {stage}" for number, stage in sorted(status.stages.items()))
        self._bar.n = len(done)
        self._bar.set_description_str(f"{leading}{running}"[:44])

    def _line(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            click.echo(text, err=True)


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
