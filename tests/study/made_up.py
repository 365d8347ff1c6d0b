"""Made-up studies, whose truth is known: every run does what a table says of its method, with a little noise."""

import zlib

import numpy as np

from corpo_rl.records import EVALUATION_SPLITS
from corpo_rl.study.collect import collect
from corpo_rl.study.execution import DIGITS, job_as_json
from corpo_rl.study.plan import PARTS, Plan, Sizes, matched_rates
from corpo_rl.study.quantities import Study

SIZES = Sizes(
    steps=24, prompts=8, group_size=8, learning_rate=1e-3, early=4, late=8, bin=2, samples=4, items=0, hedge_steps=1,
    timing_steps=3, timing_rounds=4,
)  # fmt: skip

PLAN = Plan(
    sizes=SIZES,
    thresholds={"min_margin": (0.2, 0.6), "brier": (0.68,)},
    methods=("grpo", "dr_grpo", "static", "corpo"),
    seeds=tuple(range(6)),
    pilot_seeds=(100, 101),
    few_seeds=(0, 1, 2),
)

N_ITEMS = {"in_domain": 80, "ood": 60, "other_domain": 50}

UP = {"grpo": (0.55, 0.55, 0.6), "dr_grpo": (0.5, 0.5, 0.5), "static": (0.2, 0.5, 0.8), "corpo": (0.2, 0.4, 0.4)}
"""Share of the rollouts pushed up, early, in the middle and late; the others are pushed down."""
REINFORCED = {"grpo": 0.3, "dr_grpo": 0.25, "static": 0.0, "corpo": 0.0}
"""Share of the failures pushed up."""
SOLVED = {
    "none": (0.3, 0.5, 0.3),
    "grpo": (0.7, 0.2, 0.5),
    "dr_grpo": (0.7, 0.3, 0.5),
    "static": (0.7, 0.45, 0.5),
    "corpo": (0.55, 0.45, 0.5),
}
"""Chance of a correct completion, by split."""
UPDATE = {"grpo": 0.2, "dr_grpo": 0.2, "static": 0.1, "corpo": 0.16}
ENVIRONMENT = {"machine": "x86_64", "torch": "2.0", "trl": "1.16.0"}


def record(plan, run, rates=None):
    """A run as a worker would have recorded it."""
    job = plan.job(run, rates or {})
    rng = np.random.default_rng(zlib.crc32(run.name.encode()))
    made = {**job_as_json(job), "seconds": {"all": 10.0}, "environment": ENVIRONMENT}
    if run.part == "timing":
        methods = run.method.split("+")
        made["rounds"] = [
            {name: 1.0 + 0.001 * number + (0.002 if name == "corpo" else 0) for name in methods}
            for number in range(plan.sizes.timing_rounds)
        ]
        return made
    if run.method != "none":
        made["series"] = series(plan, job, rng)
    if run.part != "pilot":
        made["evaluation"] = {split: evaluation(plan, job, split, rng) for split in EVALUATION_SPLITS}
    return made


def series(plan, job, rng):
    sizes, run = plan.sizes, job.run
    n = sizes.prompts * sizes.group_size
    ends = np.array([0, sizes.early, sizes.steps - sizes.late, sizes.steps])
    share = np.repeat(UP[run.method], np.diff(ends))
    if run.threshold in (1.0, -1.0):
        share = np.full(sizes.steps, 0.0 if run.threshold == 1.0 else 1.0 if run.method == "static" else 0.5)
    up = rng.binomial(n, share) if 0 < share[0] < 1 else (n * share).astype(int)
    if (run.threshold == -1.0 and run.method == "corpo") or (run.part, run.method) == ("pilot", "dr_grpo"):
        up = np.full(sizes.steps, n // 2)  # CoRPO over an inert floor has to be dr_grpo
    failed = np.full(sizes.steps, n // 2)
    names = [f"{threshold:g}" for threshold in job.judged]
    return {
        "reward": [0.1] * sizes.steps,
        "up": up.tolist(),
        "down": (n - up).tolist(),
        "failed": {name: failed.tolist() for name in names},
        "failed_up": {name: rng.binomial(failed, REINFORCED[run.method]).tolist() for name in names},
        "floored": {name: [sizes.prompts // 2] * sizes.steps for name in names},
        "update": (UPDATE[run.method] * job.learning_rate / sizes.learning_rate * np.ones(sizes.steps)).tolist(),
        "gradient": [0.5] * (sizes.steps - 1) + [1.5],
        "hedge": [0.0] * sizes.steps,
        "unparsed": [0.0] * sizes.steps,
    }


def evaluation(plan, job, split, rng):
    place = list(EVALUATION_SPLITS).index(split)
    chance = 0.01 if job.run.base == "hedge" else SOLVED[job.run.method][place]
    if job.run.threshold == 1.0:
        chance = 0.4
    correct = rng.binomial(plan.sizes.samples, chance, size=N_ITEMS[split])
    return {
        "n_samples": plan.sizes.samples,
        "correct": {f"{one:g}": "".join(DIGITS[count] for count in correct) for one in job.judged},
        "reward": 0.1, "brier": 0.2, "hedge": 0.0, "unparsed": 0.0,
    }  # fmt: skip


def results_of(plan=PLAN, *, without=lambda run: False):
    """Results of every run of a plan but those that are left out."""
    pilot = [record(plan, run) for run in plan.runs("pilot")]
    rates = matched_rates(pilot, plan.sizes)
    runs = [run for part in PARTS for run in plan.runs(part)]
    return collect(
        plan, [record(plan, run, rates) for run in runs if not without(run)], rates=rates, n_planned=len(runs)
    )


def study_of(plan=PLAN, **given):
    return Study(results_of(plan, **given))
