"""Step rewards from a reward function through verl's reward managers and agent loop."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.tools.function_tool import function_tool, get_function_tool
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import load_reward_manager
from verl.workers.rollout.replica import TokenOutput

from corpo_rl.errors import DataError, UsageError
from corpo_rl.training.verl_step_carrier import NO_STEPS
from corpo_rl.training.verl_step_settings import STEP_NAME
from corpo_rl.training.verl_steps import StepRewardManager

from .test_reward_and_data import tokenizer  # noqa: F401  # a fixture
from .test_verl_steps import batch, packed, settings

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"


@pytest.fixture
def manager(composed, tokenizer, tmp_path):  # noqa: F811
    """verl's loader of reward managers, on a reward function that is written to a file."""

    def load(source, *overrides):
        path = tmp_path / "reward.py"
        path.write_text(source)
        config = composed(
            f"reward.custom_reward_function.path={path}", f"reward.reward_manager.name={STEP_NAME}", *overrides
        )
        return load_reward_manager(config, tokenizer)

    return load


def page_reward():
    """The reward function of the documentation."""
    (code,) = re.findall(r"```python\n(def compute_score.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return code


def returns(value):
    return f"def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):\n    return {value}\n"


def rollout(tokenizer, text, truth="", *, pad=2):  # noqa: F811
    """One rollout as verl's agent loop gives it to a reward manager: prompt, answer with its end, padding."""
    response = [*tokenizer.encode(text), tokenizer.eos_token_id]
    return DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([[1, 2]]),
            "responses": torch.tensor([response + [tokenizer.pad_token_id] * pad]),
            "attention_mask": torch.tensor([[1] * (2 + len(response)) + [0] * pad]),
        },
        non_tensors={
            "data_source": np.array(["sums"], dtype=object),
            "reward_model": np.array([{"ground_truth": truth}], dtype=object),
            "extra_info": np.array([{}], dtype=object),
        },
    )


def scored(loaded, tokenizer, text, truth=""):  # noqa: F811
    """What the manager makes of one rollout, and how many tokens it has."""
    result = loaded.loop.run_until_complete(loaded.run_single(rollout(tokenizer, text, truth)))
    return result, len(tokenizer.encode(text)) + 1


def test_the_reward_function_of_the_page_through_verls_manager(manager, tokenizer):  # noqa: F811
    loaded = manager(page_reward())
    assert isinstance(loaded, StepRewardManager)
    result, n_tokens = scored(loaded, tokenizer, "59\n83", ["59", "84"])
    assert result["reward_score"] == 0.0
    assert "steps" not in result["reward_extra_info"], "lists of several lengths are no column of verl's"
    # three bytes of "59" with its line end, two of "83" and the end of the sequence
    assert json.loads(result["reward_extra_info"][STEP_NAME]) == {"n_tokens": 6, "steps": [[0, 3, 1.0], [3, 6, 0.0]]}
    assert n_tokens == 6, "padding left out"

    rollouts = [scored(loaded, tokenizer, text, ["59", "84"])[0] for text in ("59\n84", "59\n83", "1\n84", "59\n84\n")]
    data = batch(
        [one["reward_score"] for one in rollouts],
        [one["reward_extra_info"][STEP_NAME] for one in rollouts],
        [[1] * 6 + [0]] * 2 + [[1] * 5 + [0] * 2] + [[1] * 7],
        ["a"] * 4,
    )
    out = compute_advantage(data, STEP_NAME, config=settings(corpo_step_form="steps")).batch["advantages"]
    # line 0: 1, 1, 0, 1, of mean 0.75; line 1: 1, 0, 1, 1, of mean 0.75
    right, wrong = 0.25, -0.75
    assert out.tolist() == [
        [right] * 6 + [0.0],
        [right] * 3 + [wrong] * 3 + [0.0],
        [wrong] * 2 + [right] * 3 + [0.0] * 2,
        [right] * 7,
    ]


@pytest.mark.parametrize(
    ("unit", "steps", "expected"),
    [
        ("characters", "[(0, 1, 0.5), (1, 2, None)]", {"n_tokens": 4, "steps": [[0, 2, 0.5], [2, 4, None]]}),
        ("tokens", "[(0, 1, 0.5), (1, 2, float('nan'))]", {"n_tokens": 4, "steps": [[0, 1, 0.5], [1, 2, None]]}),
        ("turns", "[0.5, None]", {"turns": [0.5, None]}),
        ("characters", "None", {"n_tokens": 4, "steps": []}),
        ("characters", "iter([])", {"n_tokens": 4, "steps": []}),
    ],
)
def test_each_unit_of_steps(unit, steps, expected, manager, tokenizer):  # noqa: F811
    # "é" is two tokens of a byte
    loaded = manager(returns(f"{{'score': 1.0, 'acc': 1, 'steps': {steps}}}"), f"+algorithm.corpo_step_unit={unit}")
    result, n_tokens = scored(loaded, tokenizer, "éa")
    assert n_tokens == 4
    assert json.loads(result["reward_extra_info"][STEP_NAME]) == expected
    assert result["reward_extra_info"]["acc"] == 1, "what else is returned goes where verl puts it"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1.0", 'the reward function returned no "steps" beside "score"'),
        ("{'score': 1.0}", 'the reward function returned no "steps" beside "score"'),
        ("{'score': 1.0, 'steps': 3}", "the reward function: expected a list of steps, found 3"),
        ("{'score': 1.0, 'steps': {0: 1.0}}", r"the reward function: expected a list of steps, found \{0: 1.0\}"),
        ("{'score': 1.0, 'steps': [(0, 9, 1.0)]}", "the reward function, step 0: expected a range within 0 and 1 char"),
        ("{'score': 1.0, 'steps': [(0, 1)]}", r"the reward function, step 0: expected \(start, end, reward\), got"),
    ],
)
def test_wrong_steps_reach_the_estimator_as_an_error(value, message, manager, tokenizer):  # noqa: F811
    """verl's agent loop logs what a reward raises, and trains on the rest of the group: nobody would know."""
    result, _ = scored(manager(returns(value)), tokenizer, "a")
    assert result["reward_score"] == 1.0
    data = batch([1.0], [result["reward_extra_info"][STEP_NAME]], [[1, 1]], ["a"])
    with pytest.raises(DataError, match=f"corpo_steps, rollout 0: {message}"):
        compute_advantage(data, STEP_NAME, config=settings())


def test_a_score_of_none_is_unknown(manager, tokenizer):  # noqa: F811
    result, _ = scored(manager(returns("{'score': None, 'steps': None}")), tokenizer, "a")
    assert np.isnan(result["reward_score"])


def test_an_unknown_unit_ends_the_reward_worker_as_it_starts(manager):
    with pytest.raises(UsageError, match=r"algorithm\.corpo_step_unit: expected one of characters, tokens, turns"):
        manager(page_reward(), "+algorithm.corpo_step_unit=words")


def test_verls_validation_leaves_the_steps_out_of_its_means():
    infos = {"score": [1.0, 0.0], STEP_NAME: [packed(1, (0, 1, 1.0)), NO_STEPS]}
    metrics = process_validation_metrics(["sums"] * 2, ["p"] * 2, infos)["sums"]
    assert metrics["score"]["mean@2"] == 0.5
    assert STEP_NAME not in metrics


@function_tool
def add(a: int, b: int) -> str:
    """Add two numbers.

    Args:
        a: One.
        b: Other.
    """
    return str(a + b)


def test_turns_of_verls_own_tool_agent(composed, tokenizer, monkeypatch):  # noqa: F811
    """The gaps in the mask that verl's agent loop makes are the tool's, and it counts two turns for each of ours."""
    plain = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", plain + "{% if add_generation_prompt %}assistant: {% endif %}")
    call = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    written = [call, call, "3"]

    class Server:
        said = iter(written)

        async def generate(self, **_):
            ids = [*tokenizer.encode(next(self.said)), tokenizer.eos_token_id]
            return TokenOutput(token_ids=ids, extra_fields={})

    config = composed("actor_rollout_ref.rollout.multi_turn.format=hermes", "data.max_response_length=1000")
    agent = ToolAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=Server(),
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=None,
        data_config=DictConfigWrap(config.data),
        tools=ToolListWrap([get_function_tool("add")]),
    )
    output = agent.loop.run_until_complete(agent.run({}, raw_prompt=[{"role": "user", "content": "1+2?"}]))
    ours = [token for token, own in zip(output.response_ids, output.response_mask, strict=True) if own]
    assert tokenizer.decode(ours, skip_special_tokens=True) == "".join(written)
    assert output.num_turns // 2 == 3

    data = batch([1.0], ['{"turns": [0.0, 0.5, 1.0]}'], [output.response_mask], ["a"])
    config = settings(corpo_step_form="steps", corpo_step_unit="turns", corpo_step_min_correct=[1.0, 1.0, 0.5])
    out = compute_advantage(data, STEP_NAME, config=config).batch["advantages"][0]
    lengths = [len(tokenizer.encode(text)) + 1 for text in written]
    assert out[torch.tensor(output.response_mask) == 1].tolist() == [
        value for value, length in zip([-1.0, -0.5, 0.0], lengths, strict=True) for _ in range(length)
    ]


def test_the_manager_in_verls_reward_worker(local_ray, composed, tokenizer, tmp_path):  # noqa: F811
    """In a Ray process that imports what verl's own does."""
    from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "reward.py").write_text(page_reward())
    config = composed(
        f"actor_rollout_ref.model.path={tmp_path}/model",
        f"reward.custom_reward_function.path={tmp_path}/reward.py",
        f"reward.reward_manager.name={STEP_NAME}",
    )
    worker = local_ray.remote(num_cpus=0)(RewardLoopWorker).remote(config)
    try:
        result = local_ray.get(worker.compute_score.remote(rollout(tokenizer, "59\n83", ["59", "84"])), timeout=120)
    finally:
        local_ray.kill(worker)
    assert json.loads(result["reward_extra_info"][STEP_NAME])["steps"] == [[0, 3, 1.0], [3, 6, 0.0]]
