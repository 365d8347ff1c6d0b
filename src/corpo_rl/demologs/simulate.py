"""Made-up training runs, drawn from a seed: what the demo logs hold and what an audit of them must find."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpo_rl.core.advantages import estimate_advantages
from corpo_rl.demologs.wording import completion_text, prompt_text
from corpo_rl.errors import UsageError

DIFFICULTY_SPREAD = 1.2
"""Standard deviation of the prompts' difficulty, on the scale of the policy's skill."""

GROUP_SIZE = 8
GROUPS_PER_STEP = 8
N_PROMPTS = 64
DEFAULT_STEPS = 40

MISSING: Final = "<no such field>"
"""Stands in `Rollouts.reward_values` for a row without its reward field."""


@dataclass(frozen=True)
class Scenario:
    """What kind of run is made up."""

    summary: str
    """In one sentence, for the command's output."""
    graded: bool
    """Whether a reward is the share of 4 or 10 checks that pass; otherwise it is 0 or 1."""
    skill: tuple[float, float]
    """Skill of the policy at the first and the last step, on the scale of the prompts' difficulty."""
    stuck: float
    """Share of groups in which the policy gives one and the same answer every time."""
    estimator: str
    """What computed the advantages the run logged."""
    estimator_floor: float | None
    """`min_correct` the run trained with; None for an estimator without one."""
    min_correct: float
    """Least reward that counts as correct, for the audit."""
    label_at: float
    """Reward from which a log with labels calls an answer correct."""
    dirty: bool = False
    """Whether some rows are broken."""


_GRADED = {"graded": True, "skill": (-0.8, -0.2), "stuck": 0.14}

SCENARIOS: Mapping[str, Scenario] = {
    "healthy-binary": Scenario(
        summary="rewards of 0 and 1 and a policy that learns; nothing is wrong with it",
        graded=False,
        skill=(-0.4, 1.2),
        stuck=0.05,
        estimator="grpo",
        estimator_floor=None,
        min_correct=1.0,
        label_at=1.0,
    ),
    "graded-fault": Scenario(
        summary="graded rewards on hard prompts under GRPO, which reinforces many failed answers",
        estimator="grpo",
        estimator_floor=None,
        min_correct=0.8,
        label_at=0.8,
        **_GRADED,  # type: ignore[arg-type]
    ),
    "inert-floor": Scenario(
        summary="a run meant to be CoRPO, whose min_correct of 0 never binds because no reward is below 0",
        estimator="corpo",
        estimator_floor=0.0,
        min_correct=0.0,
        label_at=0.8,
        **_GRADED,  # type: ignore[arg-type]
    ),
    "dirty": Scenario(
        summary="the graded run with broken rows: rewards of null, NaN and text, a missing field, repeats, a torn line",
        estimator="grpo",
        estimator_floor=None,
        min_correct=0.8,
        label_at=0.8,
        dirty=True,
        **_GRADED,  # type: ignore[arg-type]
    ),
}


@dataclass(frozen=True)
class Rollouts:
    """Rollouts in the order they were sampled: group after group, each in one piece."""

    step_N: NDArray[np.int64]  # noqa: N815
    """Training step, from 1. Shape [N]."""
    group_N: NDArray[np.int64]  # noqa: N815
    """Group, from 0, counted over the whole run. Shape [N]."""
    sample_N: NDArray[np.int64]  # noqa: N815
    """Place of the rollout in its group, from 0. Shape [N]."""
    prompt_N: NDArray[np.int64]  # noqa: N815
    """Index into `prompts`. Shape [N]."""
    rewards_N: NDArray[np.float64]  # noqa: N815
    """Reward in task units; NaN where nobody could score the rollout. Shape [N]."""
    advantages_N: NDArray[np.float64]  # noqa: N815
    """Advantage the run trained on. Shape [N]."""
    lengths_N: NDArray[np.int64]  # noqa: N815
    """Tokens of the completion. Shape [N]."""
    prompts: Sequence[str]
    """Text of each prompt of the run."""
    completions: Sequence[str]
    """Text of each rollout. Length N."""
    reward_values: Sequence[object]
    """Reward as it stands in the log: a number, or what a broken row holds instead (None, NaN, text, `MISSING`)."""


@dataclass(frozen=True)
class SimulatedRun:
    """A run: what it trained on and, in a dirty one, what went wrong with its log."""

    scenario: str
    """One of `SCENARIOS`."""
    train: Rollouts
    evaluation: Rollouts | None = None
    """Rollouts of an evaluation half way, for formats that keep them with the others."""
    repeated: tuple[int, ...] = ()
    """Rows of `train` that the log holds twice."""
    torn: bool = False
    """Whether the last line of the log was cut off by a kill."""
    group_size: int = field(default=GROUP_SIZE)


def simulate_run(scenario: str, *, seed: int, n_steps: int = DEFAULT_STEPS) -> SimulatedRun:
    """A small run of 8 groups of 8 rollouts a step, the same for the same seed.

    A prompt has a difficulty and 4 or 10 checks. The policy passes each check with a probability that rises with its
    skill, and so with the step; a graded reward is the share of checks passed. In a few groups it is stuck: it says the
    same thing every time.

    Args:
        scenario: One of `SCENARIOS`.
        seed: Decides every draw; at least 0.
        n_steps: Steps of training, at least 1.

    Raises:
        UsageError: No such scenario, or a number out of range.

    Example:
        >>> run = simulate_run("healthy-binary", seed=0, n_steps=2)
        >>> len(run.train.completions), sorted(set(run.train.rewards_N.tolist()))
        (128, [0.0, 1.0])
    """
    if scenario not in SCENARIOS:
        raise UsageError(f"scenario: expected one of {', '.join(SCENARIOS)}, got {scenario!r}")
    if seed < 0 or n_steps < 1:
        raise UsageError(f"expected a seed of at least 0 and at least 1 step, got seed {seed} and {n_steps} steps")
    rng = np.random.default_rng(seed)
    kind = SCENARIOS[scenario]
    difficulty_P = rng.normal(scale=DIFFICULTY_SPREAD, size=N_PROMPTS)
    n_checks_P = rng.choice([4, 10], size=N_PROMPTS)

    n_epochs = -(-n_steps * GROUPS_PER_STEP // N_PROMPTS)
    order = np.concatenate([rng.permutation(N_PROMPTS) for _ in range(n_epochs)])
    prompt_G = order[: n_steps * GROUPS_PER_STEP]  # no prompt comes twice in a step
    step_G = np.repeat(np.arange(1, n_steps + 1), GROUPS_PER_STEP)
    train = _rollouts(kind, rng, prompt_G, step_G, n_steps, difficulty_P, n_checks_P, group_size=GROUP_SIZE)
    if not kind.dirty:
        return SimulatedRun(scenario=scenario, train=train)

    half = (n_steps + 1) // 2
    evaluation = _rollouts(
        kind,
        rng,
        rng.permutation(N_PROMPTS)[:GROUPS_PER_STEP],
        np.full(GROUPS_PER_STEP, half),
        n_steps,
        difficulty_P,
        n_checks_P,
        group_size=2,
        first_prompt=N_PROMPTS,
    )
    repeated = np.flatnonzero(np.isin(train.group_N, rng.choice(step_G.size, size=2, replace=False)))
    return SimulatedRun(
        scenario=scenario,
        train=train,
        evaluation=evaluation,
        repeated=tuple(repeated.tolist()),
        torn=True,
    )


def _rollouts(
    kind: Scenario,
    rng: np.random.Generator,
    prompt_G: NDArray[np.int64],
    step_G: NDArray[np.int64],
    n_steps: int,
    difficulty_P: NDArray[np.float64],
    n_checks_P: NDArray[np.int64],
    *,
    group_size: int,
    first_prompt: int = 0,
) -> Rollouts:
    n_groups = len(prompt_G)
    progress_G = (step_G - 1) / max(n_steps - 1, 1)
    skill_G = kind.skill[0] + (kind.skill[1] - kind.skill[0]) * progress_G
    n_checks_G = n_checks_P[prompt_G] if kind.graded else np.ones(n_groups, dtype=np.int64)
    stuck_G = rng.random(n_groups) < kind.stuck
    passed_GS = draw_passed(rng, skill_G - difficulty_P[prompt_G], n_checks_G, stuck_G, group_size=group_size)

    group_N = np.repeat(np.arange(n_groups), group_size)
    passed_N, n_checks_N = passed_GS.reshape(-1), n_checks_G[group_N]
    values: list[object] = (passed_N / n_checks_N).tolist()
    completions: list[str] = []
    for row, (passed, n_checks) in enumerate(zip(passed_N.tolist(), n_checks_N.tolist(), strict=True)):
        if stuck_G[group_N[row]] and row % group_size:
            completions.append(completions[-1])
        else:
            completions.append(completion_text(rng, passed, n_checks))
    if kind.dirty and group_size == GROUP_SIZE:
        values = _spoil(values, rng)
    rewards_N = np.array([value if isinstance(value, float) else np.nan for value in values])
    n_words_N = np.array([len(text.split()) for text in completions])
    return Rollouts(
        step_N=step_G[group_N],
        group_N=group_N,
        sample_N=np.tile(np.arange(group_size), n_groups),
        prompt_N=prompt_G[group_N],
        rewards_N=rewards_N,
        advantages_N=estimate_advantages(
            kind.estimator, rewards_N, group_N, min_correct=kind.estimator_floor, unscorable="exclude"
        ),
        lengths_N=n_words_N + rng.integers(0, n_words_N // 2 + 1),
        prompts=[prompt_text(first_prompt + p, int(n_checks_P[p])) for p in range(N_PROMPTS)],
        completions=completions,
        reward_values=values,
    )


def _spoil(values: list[object], rng: np.random.Generator) -> list[object]:
    """Every kind of broken reward, in about 2 % of the rows, and one group nobody could score."""
    spoilt = list(values)
    for row in rng.choice(len(values), size=max(len(values) // 50, 4), replace=False).tolist():
        spoilt[row] = (None, float("nan"), "timeout", MISSING)[row % 4]
    group = int(rng.integers(len(values) // GROUP_SIZE))
    spoilt[group * GROUP_SIZE : (group + 1) * GROUP_SIZE] = [None] * GROUP_SIZE
    return spoilt


def draw_passed(
    rng: np.random.Generator,
    advantage_G: NDArray[np.float64],
    n_checks_G: NDArray[np.int64],
    stuck_G: NDArray[np.bool_],
    *,
    group_size: int,
) -> NDArray[np.int64]:
    """Checks passed by each rollout of each group.

    Args:
        rng: Source of every draw.
        advantage_G: Skill less difficulty; a check passes with probability 1 / (1 + exp(-that)). Shape [G].
        n_checks_G: Checks of the group's prompt. Shape [G].
        stuck_G: Whether all rollouts of the group give the answer of the first. Shape [G].
        group_size: Rollouts of a group.

    Returns:
        Shape [G, group_size].
    """
    chance_G = 1 / (1 + np.exp(-advantage_G))
    passed_GS = rng.binomial(n_checks_G[:, None], chance_G[:, None], size=(len(advantage_G), group_size))
    return np.where(stuck_G[:, None], passed_GS[:, :1], passed_GS)


@dataclass(frozen=True)
class GradedLog:
    """Numbers of a large graded run, group after group."""

    step_N: NDArray[np.int64]  # noqa: N815
    prompt_N: NDArray[np.int64]  # noqa: N815
    group_N: NDArray[np.int64]  # noqa: N815
    rewards_N: NDArray[np.float64]  # noqa: N815
    min_correct: float


def synthetic_graded(n_rollouts: int = 100_000, *, seed: int = 0) -> GradedLog:
    """Numbers of a graded run of any size, in arrays: 10 groups of 8 rollouts a step, from 4,096 prompts.

    About a third of the failed rollouts get a positive advantage under GRPO, and about 70 % of the groups hold no
    rollout of at least 0.8. A prompt can come twice in a step, so that step and prompt do not tell the groups.

    Args:
        n_rollouts: Rows, a multiple of 8.
        seed: Decides every draw.

    Raises:
        UsageError: `n_rollouts` is not a positive multiple of 8.

    Example:
        >>> log = synthetic_graded(80_000)
        >>> len(log.rewards_N), int(log.group_N[-1]), int(log.step_N[-1])
        (80000, 9999, 1000)
    """
    if n_rollouts < GROUP_SIZE or n_rollouts % GROUP_SIZE:
        raise UsageError(f"n_rollouts: expected a positive multiple of {GROUP_SIZE}, got {n_rollouts}")
    rng = np.random.default_rng(seed)
    kind = SCENARIOS["graded-fault"]
    n_prompts, n_groups = 4096, n_rollouts // GROUP_SIZE
    difficulty_P = rng.normal(scale=DIFFICULTY_SPREAD, size=n_prompts)
    n_checks_P = rng.choice([4, 10], size=n_prompts)

    prompt_G = rng.integers(n_prompts, size=n_groups)
    skill_G = np.linspace(*kind.skill, n_groups)
    n_checks_G = n_checks_P[prompt_G]
    stuck_G = rng.random(n_groups) < kind.stuck
    passed_GS = draw_passed(rng, skill_G - difficulty_P[prompt_G], n_checks_G, stuck_G, group_size=GROUP_SIZE)
    group_N = np.repeat(np.arange(n_groups), GROUP_SIZE)
    return GradedLog(
        step_N=group_N // 10 + 1,
        prompt_N=prompt_G[group_N],
        group_N=group_N,
        rewards_N=(passed_GS / n_checks_G[:, None]).reshape(-1),
        min_correct=kind.min_correct,
    )
