"""Our estimators beside the advantages TRL's own code computes, run live on a tiny model."""

import numpy as np
import pytest

from corpo_rl import compose_advantages, dr_grpo_advantages, grpo_advantages

pytest.importorskip("trl", reason="TRL is not installed: pip install 'corpo-rl[train]'")

GROUP_SIZE = 4
nan = float("nan")
REWARDS = np.array(
    [
        [0.0, 0.5, 0.5, 1.0],  # graded
        [0.1, 0.1, 0.1, 0.1],  # equal
        [-1.0, nan, 0.25, nan],  # two unscorable
        [nan, 0.7, nan, nan],  # one scorable
        [nan, nan, nan, nan],  # none scorable
        [-1.0, -0.8, -0.9, -0.7],  # all failed, graded
    ]
)
ROW_GROUPS = np.repeat(np.arange(len(REWARDS)), GROUP_SIZE)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from corpo_rl.policies.mini import build_tokenizer, new_model

    torch.set_num_threads(1)
    config = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=REWARDS.size,
        num_generations=GROUP_SIZE,
        max_completion_length=2,
        gradient_checkpointing=False,
        report_to="none",
    )
    prompts = [{"prompt": f"{group}+1"} for group in range(len(REWARDS))]
    trainer = GRPOTrainer(
        model=new_model(seed=0),
        reward_funcs=lambda completions, **_: REWARDS.ravel()[: len(completions)].tolist(),
        args=config,
        train_dataset=Dataset.from_list(prompts),
        processing_class=build_tokenizer(),
    )
    trainer.model.train()
    rows = [row for row in prompts for _ in range(GROUP_SIZE)]
    trainer.rows = rows
    return trainer


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # transformers' own, on generation settings
@pytest.mark.parametrize("scale", ["group", "none", "batch"])
def test_equals_trl(trainer, scale):
    trainer.scale_rewards = scale
    theirs = trainer._generate_and_score_completions(trainer.rows)["advantages"].double().numpy()
    ours = {
        "group": lambda: grpo_advantages(REWARDS.ravel(), ROW_GROUPS, unscorable="exclude"),
        "none": lambda: dr_grpo_advantages(REWARDS.ravel(), ROW_GROUPS, unscorable="exclude"),
        "batch": lambda: compose_advantages(
            REWARDS.ravel(), ROW_GROUPS, baseline="mean", scale="batch_std", unscorable="exclude"
        ),
    }[scale]()
    assert np.abs(theirs).max() > 0.3
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=2e-6)  # TRL computes in float32
