"""CoRPO's claims, checked on the embedded task: seven methods, ten seeds, two rewards, three thresholds each.

    python recipes/mini-study/run.py --out runs/mini-study

No model and no data are fetched. Every run leaves a small file in OUT/records and is not run again: the same command
goes on where it was stopped, on another machine too if the records are copied there. It ends with OUT/results.json and
pictures; `--keep` puts them on the page beside this file, and the verdicts in short on the project's front page.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import click

from corpo_rl.errors import CorpoError
from corpo_rl.experiment.folder import locked, write_text
from corpo_rl.study.claims import summary, verdicts
from corpo_rl.study.collect import collect, results_text
from corpo_rl.study.pictures import pictures
from corpo_rl.study.plan import FLOORED, FREE, PARTS, Plan, Sizes, matched_rates, record_path
from corpo_rl.study.quantities import Study
from corpo_rl.study.side_by_side import read_record, run_jobs
from corpo_rl.study.tables import fill_in, generated, short_table, summary_table

HERE = Path(__file__).parent
FRONT = HERE.parent.parent / "README.md"

PLAN = Plan(
    sizes=Sizes(
        steps=48,
        prompts=24,
        group_size=8,
        learning_rate=6e-4,
        early=6,
        late=16,
        bin=2,
        samples=16,
        items=0,
        hedge_steps=150,
        timing_steps=10,
        timing_rounds=10,
    ),
    thresholds={
        # Both scores on the right side by a point; by three points; and one under which only a score that is 4 points
        # or more on the wrong side fails, so that the floor lies under most groups' means.
        "min_margin": (0.2, 0.6, -0.6),
        # The same by the Brier score: both scores 4 points off; 2 points off; and one that a single sure error misses.
        "brier": (0.68, 0.92, 0.0),
    },
    methods=(*FREE, *FLOORED),
    seeds=tuple(range(10)),
    pilot_seeds=(100, 101),
    few_seeds=(0, 1, 2),
)

QUICK = Plan(
    sizes=replace(
        PLAN.sizes, steps=6, prompts=2, early=2, late=2, bin=1, samples=2, items=6, hedge_steps=2, timing_steps=4,
        timing_rounds=2,
    ),
    thresholds={"min_margin": (0.2, -0.6)},
    methods=("grpo", "dr_grpo", "static", "corpo"),
    seeds=(0, 1),
    pilot_seeds=(100,),
    few_seeds=(0,),
)  # fmt: skip
"""As small as it gets: to see that it works. Its numbers mean nothing."""


def run_study(out: Path, plan: Plan, parts: tuple[str, ...], *, jobs: int) -> dict:
    """Run what is left of the parts, and return the results of everything on record."""
    runs = {part: plan.runs(part) for part in PARTS}
    # nothing of ours runs beside what is timed
    stages = [("pilot",), ("main", "failing"), ("timing",)] if jobs > 1 else [("pilot",), PARTS[1:]]
    stages = [[run for part in stage if part in parts for run in runs[part]] for stage in stages]
    left = [sum(not record_path(out, run).exists() for run in stage) for stage in stages]

    def carry_out(number: int, rates: dict[str, float]) -> None:
        run_jobs(
            out,
            [plan.job(run, rates) for run in stages[number]],
            side_by_side=1 if "timing" in {run.part for run in stages[number]} else jobs,
            n_later=sum(left[number + 1 :]),
            say=lambda line: click.echo(line, err=True),
        )

    carry_out(0, {})
    pilot = [read_record(out, plan.job(run, {})) for run in runs["pilot"]]
    if None in pilot:
        raise click.UsageError(f"--only: the learning rates come from the pilot, which is not whole in {out}; run it")
    rates = matched_rates(pilot, plan.sizes)
    for number in range(1, len(stages)):
        carry_out(number, rates)
    records = [read_record(out, plan.job(run, rates)) for part in PARTS for run in runs[part]]
    shutil.rmtree(out / "scratch", ignore_errors=True)
    return collect(plan, [one for one in records if one is not None], rates=rates, n_planned=len(records))


def judged(results: dict) -> dict:
    """The results with the verdicts on all claims, and how many cells there are of each."""
    found = verdicts(Study(results))
    return {**results, "verdicts": found, "summary": summary(found)}


def render(results: dict, page: Path, pictures_folder: Path, front: Path) -> None:
    """Put tables and pictures of the results on a page, and the verdicts in short on the front page."""
    short = {"claims": short_table(results["verdicts"])}
    write_text(front, fill_in(front.read_text(encoding="utf-8"), short))
    study = Study(results)
    text = fill_in(page.read_text(encoding="utf-8"), generated(study, results["verdicts"], results["summary"]))
    write_text(page, text)
    for name, picture in pictures(study, results["verdicts"]).items():
        write_text(pictures_folder / name, picture)


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the study.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Runs side by side.")
@click.option("--seeds", type=click.IntRange(min=2), help=f"Seeds of the main part.  [default: {len(PLAN.seeds)}]")
@click.option("--only", help=f"Parts to run, with commas: {', '.join(PARTS)}.  [default: all]")
@click.option("--quick", is_flag=True, help="A study of a minute or two, to see that it works.")
@click.option(
    "--render", "render_it", is_flag=True, help="Make pages and pictures anew from results.json; run nothing."
)
@click.option("--keep", is_flag=True, help="Put the results of OUT on our pages.")
def main(out, jobs, seeds, only, quick, render_it, keep):
    """Run the study, or what is left of it, and write OUT/results.json, or its page."""
    if render_it:
        render(json.loads((HERE / "results.json").read_text(encoding="utf-8")), HERE / "README.md", HERE, FRONT)
        return
    if out is None:
        raise click.UsageError("--out: expected the folder of the study")
    plan = QUICK if quick else PLAN
    plan = plan if seeds is None else replace(plan, seeds=tuple(range(seeds)))
    parts = PARTS if only is None else tuple(only.split(","))
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise click.UsageError(f"--only: expected some of {', '.join(PARTS)}, got {', '.join(unknown)}")
    if keep and quick:
        raise click.UsageError("--keep: the numbers of --quick mean nothing; leave one of the two out")
    try:
        with locked(out):
            results = judged(run_study(out, plan, parts, jobs=jobs))
            write_text(out / "results.json", results_text(results))
    except CorpoError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(error.exit_code) from None
    for name, picture in pictures(Study(results), results["verdicts"]).items():
        write_text(out / name, picture)
    click.echo(summary_table(results["summary"]))
    if keep:
        write_text(HERE / "results.json", results_text(results))
        render(results, HERE / "README.md", HERE, FRONT)


if __name__ == "__main__":
    main()
