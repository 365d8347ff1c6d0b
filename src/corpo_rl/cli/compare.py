"""`corpo-rl compare`: train methods x seeds, evaluate, report."""

import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corpo_rl.cli.extras import SMALL, TRAINING, check_extras, needs_of_task
from corpo_rl.cli.task_options import folder_of, task_options, with_task
from corpo_rl.errors import UsageError

if TYPE_CHECKING:
    from corpo_rl.experiment.settings import Settings

DEFAULT_METHODS = "grpo,dr_grpo,static,corpo,loo_corpo"


def _positive_list(text: str, flag: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{flag}: expected whole numbers with commas between them, got {text!r}") from None
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise UsageError(f"{flag}: expected each number once, at least 0, got {text!r}")
    return seeds


@click.command()
@click.option(
    "--scale",
    type=click.Choice(["mini", "small"]),
    default="mini",
    show_default=True,
    help="Preset: the embedded policy on sums, or SmolLM2-135M on --pairs.",
)
@task_options
@click.option("--policy", help="mini, smollm2, a local model folder, or a hub id.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="Where runs train and are evaluated; several GPUs: one experiment each, by CUDA_VISIBLE_DEVICES.  "
    "[default: cpu]",
)
@click.option(
    "--methods",
    default=DEFAULT_METHODS,
    show_default=True,
    help="Estimators, with commas between them; also rloo, qae, opo, ngrpo=MAX, odrpo, max_gap, ema, w_reinforce, nsr, "
    "psr, value, value_model, and any with +floor, +gate, +batch_std, +fixed=C or +phase behind it.",
)
@click.option("--seeds", default="0", show_default=True, help="Training seeds, with commas between them.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the experiment.  [default: runs/SCALE, or runs/TASK for another task than the scale's]",
)
@click.option("--steps", type=int, help="Optimizer steps of each run.")
@click.option("--group-size", type=int, help="Completions per prompt.")
@click.option("--prompts-per-step", type=int, help="Prompts per optimizer step.")
@click.option("--micro-batch", type=int, help="Rollouts per forward and backward pass.")
@click.option("--learning-rate", type=float, help="Constant AdamW learning rate.")
@click.option("--temperature", type=float, help="Of training and evaluation.")
@click.option("--min-correct", type=float, help="Least reward that counts as correct.  [default: the task's]")
@click.option(
    "--min-correct-schedule",
    metavar="SCHEDULE",
    help="While training, a threshold that rises to --min-correct: ramp:FROM:TO:STEPS or target:SHARE:LEVEL,LEVEL,...",
)
@click.option(
    "--curated",
    type=click.Path(path_type=Path),
    help="Train on the prompts that this list keeps: `corpo-rl curate LOGS --out` makes one. Prompts it does not name "
    "are kept.",
)
@click.option(
    "--group-selection",
    metavar="RULE",
    help="Groups to train on: all, varying (DAPO, on graded rewards), mixed (DAPO, on accuracy), or keep_failed, which "
    "keeps the failing groups that CoRPO learns from.",
)
@click.option(
    "--on-deselected", help="The other groups: drop them, or resample further prompts until the batch is full."
)
@click.option("--max-new-tokens", type=int, help="Completion length limit.")
@click.option("--max-prompt-tokens", type=int, help="Longer items are left out, and counted.")
@click.option("--warmup-steps", type=int, help="Supervised steps that teach the answer's form first; 0 for none.")
@click.option("--lora-rank", type=int, help="Rank of LoRA adapters; 0 trains all weights.")
@click.option("--samples", "samples_per_item", type=int, help="Completions per item in the final evaluation.")
@click.option("--k", type=int, help="The k of pass@k, beside pass@1.")
@click.option("--eval-items", type=int, help="Items per split in the final evaluation; 0 for all.")
@click.option("--curve-every", type=int, help="Steps between evaluations while training; 0 for none.")
@click.option("--checkpoint-every", type=int, help="Steps between checkpoints.")
@click.option("--threads", type=int, help="Torch threads of each run.")
@click.option("--jobs", type=int, help="Runs side by side.  [default: cores / threads]")
@click.option("--force", is_flag=True, help="Replace another experiment in --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of text.")
def compare(
    scale: str, methods: str, seeds: str, out: Path | None, jobs: int | None, force: bool, as_json: bool, **options: Any
) -> None:
    """Train a policy under several advantage estimators, and compare what they did and what came of it.

    All methods start from the same policy and meet the same data in the same order. Every run has its own folder in
    --out. A killed comparison goes on with the same command; finished runs are not redone, and more --methods or
    --seeds may be added later.

    \b
    Examples:
      corpo-rl compare
      corpo-rl compare --methods grpo,corpo --seeds 0,1,2 --out runs/three-seeds
      corpo-rl compare --methods grpo,qae+floor,max_gap+gate,value --out runs/kin
      corpo-rl compare --min-correct 0.2 \\
        --min-correct-schedule ramp:-0.6:0.2:50 --out runs/ramp
      corpo-rl compare --group-selection mixed \\
        --on-deselected resample --out runs/dapo
      corpo-rl compare --scale small --pairs pairs.jsonl --steps 3
      corpo-rl compare --policy ./my-model --pairs pairs.jsonl --task pairs
      corpo-rl compare --task my_task.py:MyTask --policy ./my-model
      corpo-rl compare --task code --data problems.jsonl --policy ./my-model \\
        --max-prompt-tokens 512 --max-new-tokens 512
      corpo-rl compare --reward brier --out runs/brier

    \b
    A task other than mini and pairs needs a policy that knows its words, and
    --max-prompt-tokens and --max-new-tokens that suit it: the presets' are for
    short scores. With --scale small it may need --warmup-steps 0 too.
    """
    from corpo_rl.experiment.inputs import check_device
    from corpo_rl.experiment.results import collect
    from corpo_rl.experiment.runner import prepare, run_all
    from corpo_rl.experiment.settings import SCALES, check_methods, check_together

    names = tuple(part.strip() for part in methods.split(",") if part.strip())
    check_methods(names)
    numbers = _positive_list(seeds, "--seeds")
    settings = _settings(SCALES[scale], options)
    check_together(settings, names)
    small = SMALL if settings.policy == "smollm2" else ()
    check_extras("corpo-rl compare", [*small, *TRAINING, *needs_of_task(settings.task)])
    check_device(settings)
    out = out or Path("runs") / folder_of(settings.task, scale=scale, preset_task=SCALES[scale].task)
    if force and (out / "experiment.json").exists():
        shutil.rmtree(out)
    settings = prepare(out, settings)
    jobs = jobs if jobs is not None else max(1, (os.cpu_count() or 1) // settings.threads)

    with _Bars() as bars:
        run_all(out, settings, methods=names, seeds=numbers, jobs=jobs, progress=bars.show)
    results = collect(out, methods=names, seeds=numbers, command=_command_line())
    _write_reports(out, results, as_json=as_json)


def _settings(preset: "Settings", options: dict[str, Any]) -> "Settings":
    given = with_task({name: value for name, value in options.items() if value is not None}, preset_task=preset.task)
    if given.get("device") == "cpu":
        del given["device"]
    if "group_selection" in given:
        given.setdefault("on_deselected", "drop")
    if "samples_per_item" in given and "k" not in given:
        given["k"] = min(preset.k, given["samples_per_item"])
    return replace(preset, **given)


def _write_reports(out: Path, results: dict[str, Any], *, as_json: bool) -> None:
    from corpo_rl.experiment.folder import write_text
    from corpo_rl.report.html import compare_html
    from corpo_rl.report.schema import check_results, results_json
    from corpo_rl.report.text import compare_text

    check_results(results)
    write_text(out / "results.json", results_json(results))
    write_text(out / "report.html", compare_html(results))
    click.echo(results_json(results) if as_json else compare_text(results))
    click.echo(f"results  {out / 'results.json'}\nreport   {out / 'report.html'}", err=as_json)


def _command_line() -> str:
    return shlex.join(["corpo-rl", *sys.argv[1:]])


class _Bars:
    """A progress bar per job on stderr; plain lines where stderr is no terminal."""

    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}
        self._stages: dict[str, str] = {}

    def __enter__(self) -> "_Bars":
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()

    def show(self, job: str, stage: str, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            if self._stages.get(job) != stage:
                click.echo(f"{job}: {stage}", err=True)
            self._stages[job] = stage
            return
        from tqdm import tqdm

        bar = self._bars.get(job)
        if bar is None:
            bar = self._bars[job] = tqdm(
                total=total,
                bar_format="{desc:<26}{bar}{n_fmt:>5}/{total_fmt} {elapsed}<{remaining}",
                dynamic_ncols=True,
            )
        bar.total = total
        bar.n = done
        bar.set_description_str(f"{job} {stage}"[:26])
