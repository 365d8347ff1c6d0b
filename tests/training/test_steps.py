"""Step rewards in TRL: what reaches the loss and the log, that the outcome alone is CorpoTrainer, and two processes.

As a script it is one process of runs whose completions do not depend on the number of processes:

    torchrun --nproc_per_node N -m tests.training.test_steps FOLDER
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from datasets import Dataset

from corpo_rl.cli.main import cli
from corpo_rl.core.advantages import corpo_advantages
from corpo_rl.core.dynamics import reinforced_failure_share
from corpo_rl.core.steps import rewards_to_go, step_corpo_advantages
from corpo_rl.policies.mini import build_tokenizer
from corpo_rl.training.steps import FORMS

from .equal_run import BATCH, GROUP, STEPS, reward, rollout
from .step_support import THRESHOLDS, steps_of, train
from .support import GROUP_SIZE, MIN_CORRECT, completion_log, logged, prompts, tenths
from .support import train as train_plain

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*rollout_func.*"),
]

ROOT = Path(__file__).parents[2]


def by_rollout(batch):
    """Advantages of the tokens of each rollout, without those of the padding, which must be 0."""
    rows = {}
    for prompt, completion, advantages in zip(batch.prompt_ids, batch.completion_ids, batch.advantages, strict=True):
        assert not advantages[len(completion) :].any()
        rows[tuple(prompt), tuple(completion)] = advantages[: len(completion)].tolist()
    return rows


def flat(rows):
    """Rewards or advantages of steps, row by row, and their rollouts."""
    values = [np.nan if value is None else value for row in rows for value in row]
    return np.array(values, dtype=float), np.repeat(np.arange(len(rows)), [len(row) for row in rows])


def expected_advantages(texts, *, form, weight=1.0, discount=0.0, group_size=GROUP_SIZE):
    """Core's advantage of each step and the outcome's of each rollout, of texts in groups one after the other."""
    groups = np.arange(len(texts)) // group_size
    outcome = corpo_advantages([tenths(text) / 10 for text in texts], groups, min_correct=MIN_CORRECT)
    rewards, rollouts = flat([[reward for _, _, reward in steps_of(text)] for text in texts])
    credited = rewards_to_go(rewards, rollouts, discount=discount)
    found = step_corpo_advantages(
        credited, rollouts, groups, min_correct=THRESHOLDS,
        outcome_advantages=outcome if form == "both" else None, outcome_weight=weight, unscorable="exclude",
    )  # fmt: skip
    return [found[rollouts == rollout].tolist() for rollout in range(len(texts))], outcome, credited


def of_tokens(ids, steps, outside):
    """Advantages of the tokens of one completion: a token is a character, or a special one that closes what it follows.

    The untrained policy writes special tokens anywhere.
    """
    tokenizer = build_tokenizer()
    pieces = tokenizer.batch_decode([[token] for token in ids], skip_special_tokens=True)
    text, found, place = "".join(pieces), [], 0
    for piece in pieces:
        holds = place if piece else place - 1
        inside = [
            advantage for (start, end, _), advantage in zip(steps_of(text), steps, strict=True) if start <= holds < end
        ]
        found.append(inside[0] if inside else outside)
        place += len(piece)
    return found


@pytest.mark.parametrize(
    ("form", "changes"),
    [("both", {}), ("both", {"outcome_weight": 0.3, "step_discount": 0.5}), ("steps", {})],
)
def test_what_reaches_the_loss_and_the_log_is_core_on_the_steps(tmp_path, form, changes):
    run = train(tmp_path, step_form=form, gradient_accumulation_steps=2, **changes)
    weight, discount = changes.get("outcome_weight", 1.0), changes.get("step_discount", 0.0)

    n_none = 0
    for step, batch in enumerate(run.generations, start=1):
        table = completion_log(tmp_path, step)
        texts = table["completion"].tolist()
        assert texts == build_tokenizer().batch_decode(batch.completion_ids, skip_special_tokens=True)
        steps_N, outcome_N, credited = expected_advantages(texts, form=form, weight=weight, discount=discount)
        n_none += np.isnan(credited).sum()

        # the log: rewards as given, and their advantages; and those follow from the logged rewards
        given = [[reward for _, _, reward in steps_of(text)] for text in texts]
        assert [json.loads(row) for row in table["corpo_step_rewards"]] == given
        for row, steps in zip(table["corpo_step_advantages"], steps_N, strict=True):
            assert json.loads(row) == pytest.approx(steps, abs=1e-9)

        wanted = {}
        for ids, prompt, steps, outcome in zip(batch.completion_ids, batch.prompt_ids, steps_N, outcome_N, strict=True):
            outside = weight * outcome if form == "both" else 0.0
            wanted[tuple(prompt), tuple(ids)] = of_tokens(ids, steps, outside)
        means = [np.mean(advantages) for advantages in wanted.values()]
        assert len(wanted) == 16
        np.testing.assert_allclose(table["advantage"], means, atol=1e-6)

        parts = [part for part in run.losses if part.step == step - 1]
        assert [len(part.advantages) for part in parts] == [8, 8]
        for part in parts:
            for key, advantages in by_rollout(part).items():
                assert advantages == pytest.approx(wanted[key], abs=1e-6)

        thresholds = np.concatenate([THRESHOLDS[: len(row)] for row in given])
        failed = credited < thresholds
        entry = logged(run, step)
        n_known = np.isfinite(credited).sum()
        assert entry["corpo/steps/correct_share"] == pytest.approx(1 - failed.sum() / n_known)
        first = np.array([row[0] for row in steps_by_rollout(credited, given) if row])
        known = first[np.isfinite(first)]
        assert entry["corpo/steps/correct_share/0"] == pytest.approx((known >= THRESHOLDS[0]).mean())
        assert entry["corpo/steps/reinforced_failure_share"] == 0.0
        outcome_M = np.repeat(outcome_N, [len(row) for row in given])
        plain = reinforced_failure_share(credited - thresholds, outcome_M, min_correct=0.0)
        assert entry["corpo/steps/reinforced_failure_share_outcome"] == pytest.approx(plain)
        assert plain > 0, "the batch must hold failed steps that the outcome alone would push up"
        assert entry["corpo/steps/unscorable"] == np.isnan(credited).sum()
        assert entry["corpo/steps/per_rollout"] == pytest.approx(len(credited) / 16)
        n_tokens = sum(len(ids) for ids in batch.completion_ids)
        inside = sum(of_tokens(ids, [1.0] * len(steps_of(text)), 0.0).count(1.0)
                     for text, ids in zip(texts, batch.completion_ids, strict=True))  # fmt: skip
        assert entry["corpo/steps/token_share"] == pytest.approx(inside / n_tokens)
    assert n_none > 0, "the batches must hold steps that nobody could score"


def steps_by_rollout(values, given):
    ends = np.cumsum([len(row) for row in given])
    return [row.tolist() for row in np.split(values, ends[:-1])]


def test_the_outcome_alone_is_corpo_trainer_to_the_last_bit(tmp_path):
    plain = train_plain(tmp_path / "plain", max_steps=3)
    run = train(tmp_path / "steps", step_form="outcome", max_steps=3)
    assert len(run.losses) == len(plain.losses) == 3
    for mine, other in zip(run.losses, plain.losses, strict=True):
        assert mine.completion_ids == other.completion_ids
        np.testing.assert_array_equal(mine.advantages, other.advantages)
    for mine, other in zip(run.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(mine, other)
    for step in (1, 2, 3):
        assert {k: v for k, v in logged(run, step).items() if "corpo/" in k and "steps" not in k} == {
            k: v for k, v in logged(plain, step).items() if "corpo/" in k
        }
        table = completion_log(tmp_path / "steps", step)
        for outcome, steps in zip(table["advantage"], table["corpo_step_advantages"], strict=True):
            assert json.loads(steps) == pytest.approx([outcome] * len(json.loads(steps)), abs=1e-6)
    assert max(logged(run, step)["corpo/steps/reinforced_failure_share"] for step in (1, 2, 3)) > 0


def test_the_forms_train_differently(tmp_path):
    weights = {}
    for form in FORMS:
        run = train(tmp_path / form, step_form=form, max_steps=1)
        weights[form] = torch.cat([parameter.detach().flatten() for parameter in run.model.parameters()])
    assert not torch.equal(weights["both"], weights["steps"])
    assert not torch.equal(weights["both"], weights["outcome"])


def test_a_completion_without_steps_and_an_evaluation(tmp_path):
    def none_for_some(texts, **_):
        return [None if tenths(text) < 6 else [] if tenths(text) < 9 else steps_of(text) for text in texts]

    run = train(
        tmp_path, judge=none_for_some, max_steps=1, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8,
        extra={"eval_dataset": prompts(4, first=50)},
    )  # fmt: skip
    batch = next(batch for batch in run.generations if batch.mode == "train")
    texts = build_tokenizer().batch_decode(batch.completion_ids, skip_special_tokens=True)
    outcome = corpo_advantages([tenths(text) / 10 for text in texts], np.arange(8) // 4, min_correct=MIN_CORRECT)
    without = [tenths(text) < 9 for text in texts]
    assert logged(run, 1)["corpo/steps/without"] == sum(without) > 0
    for ids, advantages, expected, is_without in zip(
        batch.completion_ids, batch.advantages, outcome, without, strict=True
    ):
        if is_without:  # all its tokens get the outcome's
            np.testing.assert_allclose(advantages[: len(ids)], expected, atol=1e-6)
    assert logged(run, 1, "eval_")["eval_corpo/steps/per_rollout"] >= 0


# Conversations and tools

CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}{% if add_generation_prompt %}:{% endif %}"


def test_a_conversation_is_judged_by_its_text(tmp_path):
    tokenizer = build_tokenizer()
    tokenizer.chat_template = CHAT
    seen = []

    def judge_chat(completions, texts, **_):
        assert [completion[0]["content"] for completion in completions] == texts
        seen.extend(texts)
        return [steps_of(text) for text in texts]

    data = Dataset.from_dict({"prompt": [[{"role": "user", "content": f"{n}+{n}?"}] for n in range(8)]})
    run = train(tmp_path, judge=judge_chat, max_steps=1, extra={"train_dataset": data, "processing_class": tokenizer})
    (batch,) = run.generations
    steps_N, outcome_N, _ = expected_advantages(seen, form="both")
    rows = zip(batch.completion_ids, batch.advantages, steps_N, outcome_N, strict=True)
    for ids, advantages, steps, outcome in rows:
        np.testing.assert_allclose(advantages[: len(ids)], of_tokens(ids, steps, outcome), atol=1e-6)


def tools_rollout(prompts, trainer):
    """Two turns of the policy with a tool's answer of two tokens between them: 3 + 2 + 2 tokens."""
    tokenizer = trainer.processing_class
    completions = [f"{row}1;99{row}2" for row in range(len(prompts))]
    return {
        "prompt_ids": [tokenizer(prompt).input_ids for prompt in prompts],
        "completion_ids": [tokenizer(text).input_ids for text in completions],
        "logprobs": None,
        "env_mask": [[1, 1, 1, 0, 0, 1, 1] for _ in prompts],
        "turn_rewards": [[row / 10, 1 - row / 10] for row in range(len(prompts))],
    }


@pytest.mark.parametrize("unit", ["turns", "tokens"])
def test_turns_of_the_policy_are_steps_and_what_tools_wrote_gets_nothing(tmp_path, unit):
    def judge_turns(texts, turn_rewards, turns=None, **_):  # the rollout function's own column
        assert texts == [f"{row}1;99{row}2" for row in range(8)]
        if unit == "turns":
            assert turns == [[f"{row}1;", f"{row}2"] for row in range(8)]
            return turn_rewards
        return [[(0, 4, first), (4, 7, second)] for first, second in turn_rewards]  # into the tool's tokens

    run = train(
        tmp_path, judge=judge_turns, step_unit=unit, step_min_correct=0.5, max_steps=1, step_form="both",
        extra={"rollout_func": tools_rollout},
    )  # fmt: skip
    (batch,) = run.generations
    texts = [f"{row}1;99{row}2" for row in range(8)]
    groups = np.arange(8) // GROUP_SIZE
    outcome = corpo_advantages([tenths(text) / 10 for text in texts], groups, min_correct=MIN_CORRECT)
    rewards, rollouts = flat([[row / 10, 1 - row / 10] for row in range(8)])
    steps = step_corpo_advantages(rewards, rollouts, groups, min_correct=0.5, outcome_advantages=outcome)
    for row, advantages in enumerate(batch.advantages):
        first, second = steps[2 * row : 2 * row + 2]
        np.testing.assert_allclose(advantages, [first] * 3 + [0, 0] + [second] * 2, atol=1e-6)


# Several processes


def main(folder):
    """One process of a run in each form; the first writes what it saw, its rows with those of the others."""
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    for form in ("both", "steps"):
        run = train(
            folder / f"run-{form}",
            reward=reward,
            step_form=form,
            n_prompts=9,
            num_generations=GROUP,
            per_device_train_batch_size=BATCH // world,
            max_steps=STEPS,
            loss_type="dapo",
            extra={"rollout_func": rollout},
            **({"ddp_backend": "gloo"} if world > 1 else {}),
        )
        assert run.accelerator.num_processes == world
        rows = [
            [batch.step, *key, advantages] for batch in run.generations for key, advantages in by_rollout(batch).items()
        ]
        weights = [parameter.detach().double().abs().sum().item() for parameter in run.model.parameters()]
        names = [name for name in logged(run, STEPS) if "corpo/" in name]
        figures = {step: [logged(run, step)[name] for name in names] for step in range(1, STEPS + 1)}
        seen = {"rows": rows, "weights": weights, "names": names, "figures": figures}
        (folder / f"{form}-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
            *("-m", "tests.training.test_steps", str(folder)),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def read(folder, form, n):
    return [json.loads((folder / f"{form}-{rank}.json").read_text(encoding="utf-8")) for rank in range(n)]


def advantages_of(ranks):
    return {(step, *map(tuple, pair)): advantages for rank in ranks for step, *pair, advantages in rank["rows"]}


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    main(folder)
    return folder


@pytest.mark.parametrize("form", ["both", "steps"])
def test_two_processes_have_the_advantages_figures_and_weights_of_one(two_processes, one_process, form):
    (alone,), both = read(one_process, form, 1), read(two_processes, form, 2)
    expected, found = advantages_of([alone]), advantages_of(both)
    assert len(expected) == STEPS * BATCH
    assert found.keys() == expected.keys()
    for key, advantages in expected.items():
        assert found[key] == pytest.approx(advantages, abs=1e-6)
    assert both[0]["weights"] == both[1]["weights"] == pytest.approx(alone["weights"], rel=1e-5)
    assert both[0]["names"] == alone["names"]
    for step, figures in alone["figures"].items():
        for name, one, other in zip(alone["names"], both[0]["figures"][step], figures, strict=True):
            assert one == (other if other is None else pytest.approx(other, abs=1e-4)), name
    assert len({tuple(map(str, figures)) for figures in alone["figures"].values()}) == STEPS


def test_the_audit_reads_the_log(tmp_path):
    train(tmp_path)
    done = CliRunner().invoke(
        cli, ["audit", str(tmp_path / "completions"), "--min-correct", str(MIN_CORRECT), "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_rollouts"] == 16


if __name__ == "__main__":
    main(Path(sys.argv[1]))
