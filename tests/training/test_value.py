"""The learned value: what reaches the loss, how the critic learns, runs of several processes, and resumed runs."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig

from corpo_rl.core.dynamics import r_count
from corpo_rl.core.gae import gae_advantages
from corpo_rl.errors import DataError, UsageError
from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.training.trl import CorpoConfig
from corpo_rl.training.value import CRITICS, Critic, ValueConfig, ValueTrainer, _tokens

from .equal_run import BATCH, STEPS
from .support import MIN_CORRECT, completion_log, graded, logged, prompts, settings
from .value_run import GAE, by_rollout, main, train, value_trainer

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]

ROOT = Path(__file__).parents[2]


def rewards_of(batch):
    """Rewards of a recorded batch by the reward function itself, without TRL."""
    return graded(build_tokenizer().batch_decode(batch.completion_ids, skip_special_tokens=True))


def values_by_hand(policy, critic, prompt_ids, completion_ids):
    """V = w . h / (|h| sqrt(d)) + b of the state before each token, of one rollout alone and without padding."""
    trunk = policy.model if critic.trunk is None else critic.trunk
    hidden = trunk(torch.tensor([prompt_ids + completion_ids])).last_hidden_state[0]
    hidden = hidden[len(prompt_ids) - 1 : -1].double()
    directions = hidden / hidden.norm(dim=1, keepdim=True) / hidden.size(1) ** 0.5
    return directions @ critic.head.weight[0].double() + critic.head.bias.double()


def gae_by_hand(reward, values):
    """Core's GAE of one completion whose reward is received with its last token."""
    rewards = np.zeros((1, len(values)))
    rewards[0, -1] = reward
    found = gae_advantages(rewards, values[np.newaxis], np.ones((1, len(values))), discount=0.9, trace=0.7)
    return found.advantages_BT[0], found.returns_BT[0]


def assert_advantages_are_those_of_core(batch, policy, critic):
    wanted = by_rollout(batch)
    for prompt, completion, one in zip(batch.prompt_ids, batch.completion_ids, rewards_of(batch), strict=True):
        values = values_by_hand(policy, critic, prompt, completion).detach().numpy()
        expected, _ = gae_by_hand(one, values)
        np.testing.assert_allclose(wanted[tuple(prompt), tuple(completion)], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("critic", CRITICS)
def test_what_reaches_the_loss_is_core_on_the_critics_values_and_the_critic_learns_the_returns(tmp_path, critic):
    rates = {"critic_learning_rate": 1e-3} if critic == "model" else {}
    run = train(
        tmp_path, critic=critic, gradient_accumulation_steps=2, max_steps=3, critic_updates=2, max_grad_norm=0.0,
        **rates, **GAE,
    )  # fmt: skip

    assert [batch.step for batch in run.generations] == [0, 1, 2]
    optimizer = None
    for step, batch in enumerate(run.generations):
        policy, before = run.before[step]
        if optimizer is None:  # a critic of our own, trained without chunks or padding: it must stay where theirs goes
            ours = copy.deepcopy(before)
            groups = [{"params": ours.head.parameters(), "lr": 0.05}, {"params": ours.trunk_parameters(), "lr": 1e-3}]
            optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
        for name, weight in before.named_parameters():
            torch.testing.assert_close(ours.get_parameter(name), weight, rtol=1e-3, atol=1e-5)

        pairs = list(zip(batch.prompt_ids, batch.completion_ids, strict=True))
        values = [values_by_hand(policy, before, *pair).detach().numpy() for pair in pairs]
        expected = [gae_by_hand(one, of_row) for one, of_row in zip(rewards_of(batch), values, strict=True)]
        assert step == 0 or np.abs(np.concatenate(values)).min() > 0, "values of 0 would prove nothing"
        assert_advantages_are_those_of_core(batch, policy, before)

        # TRL shuffles and splits the batch on its way to the loss
        wanted = by_rollout(batch)
        parts = [part for part in run.losses if part.step == step]
        assert [len(part.advantages) for part in parts] == [8, 8]
        for part in parts:
            assert all(wanted[key] == advantages for key, advantages in by_rollout(part).items())

        table = completion_log(tmp_path, step + 1)
        means = [advantages.mean() for advantages, _ in expected]
        np.testing.assert_allclose(table["advantage"], means, rtol=1e-4, atol=1e-5)
        counted = r_count(np.array(means))  # NaN, not logged, in the first step: rewards over a value of 0
        assert logged(run, step + 1)["corpo/r_count"] == (None if np.isnan(counted) else pytest.approx(counted))

        returns, errors = (np.concatenate(part) for part in (
            [target for _, target in expected],
            [target - of_row for (_, target), of_row in zip(expected, values, strict=True)],
        ))  # fmt: skip
        assert logged(run, step + 1)["corpo/value_loss"] == pytest.approx((errors**2).mean(), rel=1e-4)
        explained = 1 - errors.var() / returns.var()
        assert logged(run, step + 1)["corpo/value_explained_variance"] == pytest.approx(explained, abs=1e-4)

        for _ in range(2):
            found = [values_by_hand(policy, ours, *pair) for pair in pairs]
            squares = [((one - torch.as_tensor(to)) ** 2).sum() for one, (_, to) in zip(found, expected, strict=True)]
            (sum(squares) / sum(map(len, values))).backward()
            optimizer.step()
            optimizer.zero_grad()


def of_prompt(prompts, **_):
    """A reward that the prompt foretells."""
    return [float(int(prompt.split("+")[0]) % 2) for prompt in prompts]


@pytest.mark.parametrize("critic", CRITICS)
def test_the_critic_learns_what_the_prompt_foretells(tmp_path, critic):
    run = train(
        tmp_path, reward=of_prompt, critic=critic, critic_updates=5, max_steps=20, n_prompts=40,
        per_device_train_batch_size=16, learning_rate=1e-5,
    )  # fmt: skip
    explained = np.array([logged(run, step)["corpo/value_explained_variance"] for step in range(1, 21)], dtype=float)
    losses = [logged(run, step)["corpo/value_loss"] for step in range(1, 21)]
    assert explained[0] == pytest.approx(0.0, abs=1e-9)  # the critic starts as a constant
    assert np.nanmean(explained[-6:]) > 0.4  # NaN where both prompts of a batch have the same reward
    assert np.mean(losses[-6:]) < 0.5 * np.mean(losses[:4])


@pytest.mark.parametrize(
    ("changes", "steps_of_generation"),
    [
        ({"gradient_accumulation_steps": 2, "num_iterations": 2}, [0, 2]),
        ({"gradient_accumulation_steps": 1, "steps_per_generation": 2}, [0, 2]),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 1}, [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_the_critic_sees_each_generated_batch_once_however_often_the_policy_uses_it(
    tmp_path, changes, steps_of_generation
):
    run = train(tmp_path, max_steps=4, **changes)
    assert [batch.step for batch in run.generations] == steps_of_generation
    (state,) = {entry["step"].item() for entry in run._critic_optimizer.state.values()}
    assert state == len(steps_of_generation)
    wanted = {key: value for batch in run.generations for key, value in by_rollout(batch).items()}
    for part in run.losses:
        assert all(wanted[key] == advantages for key, advantages in by_rollout(part).items())


def test_evaluation_trains_no_critic(tmp_path):
    # the second step trains on the first one's completions: evaluation draws random numbers of its own
    both = {"num_iterations": 2, "gradient_accumulation_steps": 2, **GAE}
    alone = train(tmp_path / "alone", **both)
    run = train(
        tmp_path / "evaluated", extra={"eval_dataset": prompts(4, first=50)}, eval_strategy="steps", eval_steps=1,
        per_device_eval_batch_size=8, **both,
    )  # fmt: skip
    for name, weight in alone.critic.state_dict().items():
        assert torch.equal(weight, run.critic.state_dict()[name])
    evaluated = [index for index, batch in enumerate(run.generations) if batch.mode == "eval"]
    assert len(evaluated) == 4
    for index in evaluated:
        assert_advantages_are_those_of_core(run.generations[index], *run.before[index])
    assert logged(run, 2, "eval_")["eval_corpo/value_loss"] > 0


def test_a_rollout_without_a_reward_trains_nothing(tmp_path):
    def half(completions, **_):
        return [None if row % 2 else 1.0 for row in range(len(completions))]

    run = train(tmp_path / "half", reward=half, max_steps=1)
    advantages = run.generations[0].advantages
    assert not advantages[1::2].any()
    assert advantages[::2].any(axis=1).all()
    assert logged(run, 1)["corpo/value_loss"] == 1.0  # (0 - 1)^2 at every token of the other half
    assert logged(run, 1)["corpo/value_explained_variance"] is None  # all returns are equal

    run = train(tmp_path / "none", reward=lambda completions, **_: [None] * len(completions), max_steps=1)
    assert not run.generations[0].advantages.any()
    assert logged(run, 1)["corpo/value_loss"] is None
    assert not run.critic.head.weight.any()


def test_the_reward_lies_at_the_last_token_that_the_policy_wrote():
    output = {
        "completion_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]),
        "tool_mask": torch.tensor([[1, 0, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]),
    }
    tokens = _tokens(output, np.array([0.5, -1.0, 2.0, np.nan]))
    np.testing.assert_array_equal(tokens.rewards_BT, [[0, 0, 0.5, 0], [0, 0, -1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(tokens.mask_BT, [[1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_the_critics_gradients_are_clipped_as_the_policys(tmp_path):
    # AdamW divides a gradient by its own size + 1e-8, so that only a norm far under that shows
    weights = [
        train(tmp_path / f"{norm}", max_steps=1, max_grad_norm=norm).critic.head.weight.detach().abs().max()
        for norm in (1.0, 1e-12)
    ]
    assert weights[0] == pytest.approx(0.05, rel=0.01)
    assert weights[1] < 1e-4


@pytest.mark.parametrize("scale", [0.1, 1.0, 1e3])
def test_a_value_does_not_depend_on_the_scale_of_the_states(scale):
    critic, hidden = Critic(None, 64), torch.randn(5, 64, generator=torch.manual_seed(0))
    with torch.no_grad():
        critic.head.weight.fill_(1.0)
        expected = hidden.sum(dim=1) / hidden.norm(dim=1) / 8.0
        torch.testing.assert_close(critic(scale * hidden), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("critic", CRITICS)
def test_resumed_from_a_checkpoint_it_goes_on_as_if_never_stopped(tmp_path, critic):
    settings_ = {"critic": critic, "max_steps": 3, "save_strategy": "steps", "save_steps": 1, **GAE}
    whole = train(tmp_path, **settings_)
    resumed = train(tmp_path, resume=str(tmp_path / "checkpoint-2"), **settings_)

    assert [batch.step for batch in resumed.generations] == [2]
    expected = {name: value for name, value in logged(whole, 3).items() if name != "step_time"}
    assert expected["corpo/value_loss"] > 0
    assert {name: logged(resumed, 3)[name] for name in expected} == expected
    np.testing.assert_array_equal(resumed.generations[0].advantages, whole.generations[2].advantages)
    for ours, theirs in ((resumed.model, whole.model), (resumed.critic, whole.critic)):
        for name, weight in theirs.named_parameters():
            assert torch.equal(weight, ours.get_parameter(name)), name


def test_a_checkpoint_without_its_critic_is_refused(tmp_path):
    saved = {"save_strategy": "steps", "save_steps": 1}
    train(tmp_path, max_steps=1, **saved)
    checkpoint = tmp_path / "checkpoint-1"
    with pytest.raises(DataError, match=r"critic.pt: a critic of another kind than critic='model'"):
        train(tmp_path / "other", resume=str(checkpoint), critic="model")
    (checkpoint / "critic.pt").unlink()
    with pytest.raises(DataError, match=r"critic.pt: no critic in this checkpoint; resume from one of a ValueTrainer"):
        train(tmp_path / "other", resume=str(checkpoint))


def test_beside_an_adapter_the_head_reads_what_the_adapter_makes(tmp_path):
    extra = {"peft_config": LoraConfig(r=2, target_modules="all-linear", lora_dropout=0.5)}
    run = train(tmp_path, extra=extra, max_steps=3, **GAE)
    policy, critic = run.before[2]
    assert_advantages_are_those_of_core(run.generations[2], policy.get_base_model(), critic)
    trained = [name for name, weight in run.model.named_parameters() if weight.requires_grad]
    assert all("lora_" in name for name in trained), "the critic must not train the policy"


def test_with_gradient_checkpointing_a_separate_critic_learns_the_same(tmp_path):
    runs = [train(tmp_path / f"{on}", critic="model", gradient_checkpointing=on) for on in (False, True)]
    assert runs[1].critic.trunk.is_gradient_checkpointing
    for name, weight in runs[0].critic.named_parameters():
        torch.testing.assert_close(runs[1].critic.get_parameter(name), weight, rtol=1e-4, atol=1e-6)


def test_in_bfloat16_the_critic_keeps_float32(tmp_path):
    run = train(tmp_path, critic="model", bf16=True)
    assert {weight.dtype for weight in run.critic.parameters()} == {torch.float32}
    assert np.isfinite(logged(run, 2)["corpo/value_loss"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantage_estimator": "corpo"}, "advantage_estimator: ValueConfig has 'value' alone, got 'corpo'"),
        ({"scale_rewards": "group"}, "scale_rewards: a learned value divides by nothing, got 'group'"),
        ({"scale_rewards": True}, "scale_rewards: a learned value divides by nothing, got True"),
        ({"floor_check_steps": 5}, "floor_check_steps: a learned value has no floor to watch, got 5"),
        ({"min_correct": None}, "min_correct: expected the least reward that counts as correct, got None"),
        ({"critic": "heads"}, "critic: expected one of head, model, got 'heads'"),
        ({"gae_discount": 1.5}, "gae_discount: expected 0 to 1, got 1.5"),
        ({"gae_trace": -0.5}, "gae_trace: expected 0 to 1, got -0.5"),
        ({"gae_trace": float("nan")}, "gae_trace: expected 0 to 1, got nan"),
        ({"critic_head_learning_rate": 0.0}, "critic_head_learning_rate: expected more than 0, got 0.0"),
        ({"critic": "model", "critic_learning_rate": -1.0}, "critic_learning_rate: expected more than 0, got -1.0"),
        ({"critic_learning_rate": 1e-5}, "critic_learning_rate: critic='head' trains no trunk, got 1e-05"),
        ({"critic_updates": 0}, "critic_updates: expected at least 1, got 0"),
        ({"loss_type": "luspo"}, "loss_type: 'luspo' wants one advantage for each rollout"),
        ({"loss_type": "vespo"}, "loss_type: 'vespo' wants one advantage for each rollout"),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold: 0.5 wants one advantage for each rollout"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation: 'normalize_then_sum'"),
    ],
)
def test_settings_that_mean_nothing_here_are_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        ValueConfig(**settings(tmp_path, **({"min_correct": MIN_CORRECT} | changes)))


def test_what_core_knows_of_the_settings_stays_hidden(tmp_path):
    args = ValueConfig(**settings(tmp_path, min_correct=MIN_CORRECT))
    assert (args.advantage_estimator, args.scale_rewards) == ("value", "none")


def test_trainers_that_cannot_hold_a_critic_are_refused(tmp_path):
    sharded = value_trainer(tmp_path)
    sharded.is_fsdp_enabled = True
    with pytest.raises(UsageError, match="expected a policy whole on every device, got one that DeepSpeed or FSDP"):
        sharded._new_critic(sharded.args)
    with pytest.raises(
        UsageError, match="critic: 'model' would train all the weights that a PEFT adapter leaves alone"
    ):
        value_trainer(tmp_path, critic="model", extra={"peft_config": LoraConfig(target_modules="all-linear")})
    with pytest.raises(UsageError, match="args: expected a ValueConfig, got CorpoConfig"):
        ValueTrainer(new_model(0), graded, CorpoConfig(**settings(tmp_path, min_correct=MIN_CORRECT)))
    with pytest.raises(UsageError, match="expected prompts of text alone, got images"):
        value_trainer(tmp_path)._token_advantages({"pixel_values": None}, None, None, None)


def launch(folder, *options):
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
            *("-m", "tests.training.value_run", str(folder), *options),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def read(folder, critic, n):
    return [json.loads((folder / critic / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(n)]


def advantages_of(ranks):
    return {(step, *map(tuple, pair)): advantages for rank in ranks for step, *pair, advantages in rank["rows"]}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """Where the runs of two processes lie, one with each critic."""
    folder = tmp_path_factory.mktemp("two")
    done = launch(folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.mark.filterwarnings("ignore:.*rollout_func.*")
@pytest.mark.parametrize("critic", CRITICS)
def test_two_processes_have_one_critic_and_the_advantages_of_one(two_processes, tmp_path, critic):
    main(tmp_path, "--only", critic)
    (alone,), both = read(tmp_path, critic, 1), read(two_processes, critic, 2)
    expected, found = advantages_of([alone]), advantages_of(both)
    assert found.keys() == expected.keys()
    assert len(expected) == STEPS * BATCH
    for key, advantages in expected.items():
        assert found[key] == pytest.approx(advantages, abs=1e-5)
    assert both[0]["head"] == both[1]["head"]
    assert both[0]["weights"] == both[1]["weights"]
    assert both[0]["weights"] == pytest.approx(alone["weights"], rel=1e-5)
    for step, figures in alone["figures"].items():
        assert both[0]["figures"][step] == pytest.approx(figures, rel=1e-4, abs=1e-5)
    assert len({figures["corpo/value_loss"] for figures in alone["figures"].values()}) == STEPS


def test_after_the_loss_of_a_process_the_same_command_goes_on_in_every_digit(two_processes, tmp_path):
    died = launch(tmp_path, "--only", "model", "--die-at", "2")
    assert died.returncode != 0
    checkpoints = (tmp_path / "model" / "run").glob("checkpoint-*")
    assert sorted(path.name for path in checkpoints) == ["checkpoint-1", "checkpoint-2"]
    resumed = launch(tmp_path, "--only", "model", "--resume")
    assert resumed.returncode == 0, resumed.stderr[-4000:]
    ranks, wholes = read(tmp_path, "model", 2), read(two_processes, "model", 2)
    assert advantages_of(ranks) == {key: value for key, value in advantages_of(wholes).items() if key[0] >= 2}
    for rank, whole in zip(ranks, wholes, strict=True):
        assert rank["head"] == whole["head"]
        assert rank["weights"] == whole["weights"]
        assert [rank["figures"][step] for step in "34"] == [whole["figures"][step] for step in "34"]
