"""Step rewards in verl: the reward manager that turns the steps of a reward function into steps of tokens.

    reward.reward_manager.name=corpo_steps

The reward function returns, beside `score`, its `steps`. What the estimator makes of them is in
`corpo_rl.training.verl_step_batch`, and how to use both in docs/steps.md. Tested on verl 0.9.1. Importing this module
registers; `corpo_rl.training.verl` does so as soon as verl imports its own reward managers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.experimental.reward_loop.reward_manager.registry import register

from corpo_rl.core.steps import NO_STEP
from corpo_rl.errors import DataError
from corpo_rl.training.step_spans import Steps, steps_of_characters, steps_of_tokens, token_text
from corpo_rl.training.verl_step_carrier import packed_error, packed_steps, packed_turns
from corpo_rl.training.verl_step_settings import STEP_NAME, step_unit

_WHERE = "the reward function"


@register(STEP_NAME)
class StepRewardManager(NaiveRewardManager):
    """verl's naive reward manager for reward functions that reward steps.

    The function is called as verl calls any, and returns a dict with

        score: The reward of the whole; None for one that nobody could give, which verl itself cannot take.
        steps: The steps in order, each (start, end, reward): a half-open range of characters of `solution_str`, or of
            tokens with `corpo_step_unit=tokens`. With `turns` a reward for each turn of the policy. A reward of None is
            one that nobody could give. None in place of the list is no steps.

    All other entries go where verl puts them. Steps that are wrong do not end the rollout, which verl would go on
    without: the estimator refuses them.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, tokenizer, compute_score, *args, **kwargs)
        self._unit = step_unit(config.algorithm)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Reward of one rollout, its steps as text in `reward_extra_info`."""
        result: dict[str, Any] = await super().run_single(data)
        if result["reward_score"] is None:
            result["reward_score"] = float("nan")
        info = result["reward_extra_info"]
        item = data[-1:][0]  # the one that verl's manager reads
        n_tokens = int(item.batch["attention_mask"][-len(item.batch["responses"]) :].sum())
        ids = item.batch["responses"][:n_tokens].tolist()
        info[STEP_NAME] = await self.loop.run_in_executor(None, self._packed, info, ids)
        return result

    def _packed(self, info: dict[str, Any], ids: list[int]) -> str:
        try:
            if "steps" not in info:
                raise DataError(f'{_WHERE} returned no "steps" beside "score"; return a list of them, or None for none')
            steps = info.pop("steps")
            if steps is None:
                return packed_steps(Steps([NO_STEP] * len(ids), []))
            if isinstance(steps, str | Mapping) or not isinstance(steps, Iterable):
                raise DataError(f"{_WHERE}: expected a list of steps, found {steps!r:.80}")
            steps = list(steps)
            if self._unit == "turns":
                return packed_turns(steps, where=_WHERE)
            if self._unit == "tokens":
                return packed_steps(steps_of_tokens(len(ids), steps, where=_WHERE))
            return packed_steps(steps_of_characters(token_text(ids, self.tokenizer), steps, where=_WHERE))
        except DataError as error:
            return packed_error(error)
