"""Dynamic selection: what a deselected group leaves in the loss, and which settings go together."""

import logging
from collections import Counter

import pytest
import torch
from datasets import Dataset

from corpo_rl.core.selection import RULES
from corpo_rl.errors import UsageError
from corpo_rl.policies.mini import new_model
from corpo_rl.training.selection import COUNT_ROWS, COUNT_TOKENS, SelectingConfig, SelectingTrainer
from corpo_rl.training.trl import CorpoTrainer

from .selection_run import CLASSES, GROUP, KEPT, assert_group_is_cores, class_of, groups_of, selecting, train, weights
from .support import MIN_CORRECT, Recorded, graded, logged, prompts, settings

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func', which is an experimental feature"),
]


@pytest.mark.parametrize("rule", RULES)
def test_a_dropped_group_reaches_the_loss_neither_with_an_advantage_nor_with_a_token(tmp_path, rule):
    run = train(tmp_path, group_selection=rule)
    assert len(run.losses) == 2
    seen = Counter()
    for step, batch in enumerate(run.losses, start=1):
        for prompt, rows in groups_of(batch).items():
            seen[class_of(prompt)] += 1
            if class_of(prompt) in KEPT[rule]:
                assert_group_is_cores(prompt, rows)
            else:
                assert rows == [((), 0.0)] * GROUP
        if rule != "all":
            n_kept = sum(class_of(prompt) in KEPT[rule] for prompt in groups_of(batch))
            entry = logged(run, step)
            assert entry["corpo/selected_groups"] == n_kept
            assert entry["corpo/dropped_groups"] == 5 - n_kept
            assert entry["corpo/resampled_groups"] == 0
            assert entry["corpo/generated_rollouts"] == 20
            for name in CLASSES:
                n_there = sum(class_of(prompt) == name for prompt in groups_of(batch))
                assert entry[f"corpo/deselected/{name}"] == (0 if name in KEPT[rule] else n_there)
    assert set(seen) == set(CLASSES), "the batches must hold a group of each class"


def gradient(run, batch):
    """Gradient of TRL's loss at this batch, with the model as it is."""
    run.model.zero_grad()
    run.model.train()
    run._compute_loss(run.model, batch).backward()
    return torch.cat([weight.grad.flatten() for weight in run.model.parameters() if weight.grad is not None]).double()


@pytest.fixture(scope="module")
def dropped(tmp_path_factory):
    """A run that drops, and a batch of it as it entered the loss."""
    run = train(tmp_path_factory.mktemp("dropped"), group_selection="mixed", max_steps=1, loss_type="dapo")
    return run, run.entered[0]


def without_the_dropped(batch):
    """The batch had it never held the dropped rollouts, for TRL's own loss."""
    kept = batch["completion_mask"].any(dim=1)
    assert 0 < kept.sum() < len(kept)
    rows = {name: value[kept] if value.ndim else value for name, value in batch.items()}
    return rows | {"num_items_in_batch": rows["completion_mask"].sum(), "corpo_loss_scale": torch.tensor(1.0)}


@pytest.mark.parametrize("loss_type", [*COUNT_ROWS, *COUNT_TOKENS])
def test_the_loss_is_that_of_a_batch_that_never_held_the_dropped(dropped, loss_type, monkeypatch):
    run, batch = dropped
    monkeypatch.setattr(run, "loss_type", loss_type)
    whole, alone = gradient(run, batch), gradient(run, without_the_dropped(batch))
    assert alone.norm() > 0
    torch.testing.assert_close(whole, alone, rtol=1e-4, atol=1e-7)
    if loss_type in COUNT_ROWS:
        unscaled = gradient(run, batch | {"corpo_loss_scale": torch.tensor(1.0)})
        assert unscaled.norm() < 0.9 * alone.norm(), "the rows must matter"


def test_dr_grpo_divides_by_the_kept_rollouts_times_the_longest_completion(dropped, monkeypatch):
    run, batch = dropped
    monkeypatch.setattr(run, "loss_type", "dr_grpo")
    kept = batch["completion_mask"].any(dim=1)
    advantages, mask = batch["advantages"].double(), batch["completion_mask"].double()
    # on policy every ratio is 1, so the loss of a token is -A
    by_hand = -(advantages[:, None] * mask).sum() / (kept.sum() * run.max_completion_length)
    assert run._compute_loss(run.model, batch).item() == pytest.approx(by_hand.item(), rel=1e-4)


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo"])
def test_micro_batches_add_up_to_the_whole_batch(tmp_path, loss_type):
    common = {"group_selection": "mixed", "max_steps": 1, "loss_type": loss_type, "max_grad_norm": 0.0}
    whole = train(tmp_path / "1", **common)
    parts = train(tmp_path / "4", **common, per_device_train_batch_size=5, gradient_accumulation_steps=4)
    assert len(parts.losses) == 4
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_batch_without_a_kept_group_moves_nothing(tmp_path, caplog):
    failing = prompts(40).filter(lambda row: class_of(row["prompt"]) == "all_failed_equal")
    with caplog.at_level(logging.WARNING, logger="corpo_rl"):
        run = train(tmp_path, group_selection="varying", extra={"train_dataset": failing}, weight_decay=0.0)
    assert [entry["loss"] for entry in run.state.log_history if "loss" in entry] == [0.0, 0.0]
    for one, other in zip(run.model.parameters(), new_model(0).parameters(), strict=True):
        assert torch.equal(one, other)
    said = [record.getMessage() for record in caplog.records if "no group of a batch is kept" in record.getMessage()]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_selection": "dapo"}, "group_selection: expected one of all, varying, mixed, keep_failed, got 'dapo'"),
        ({"on_deselected": "keep"}, "on_deselected: expected one of drop, resample, got 'keep'"),
        ({"max_resamples": 0}, "max_resamples: expected at least 1, got 0"),
        ({"min_correct": None}, "min_correct: expected the least reward that counts as correct"),
        (
            {"advantage_estimator": "dr_grpo+batch_std", "on_deselected": "resample"},
            r"advantage_estimator: dr_grpo\+batch_std divides by a figure of the whole batch",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        SelectingConfig(**settings(tmp_path, **({"min_correct": MIN_CORRECT} | changes)))


def test_an_entropy_bonus_would_be_scaled_with_a_loss_that_counts_rollouts(tmp_path):
    if not hasattr(SelectingConfig, "entropy_coef"):
        pytest.skip("this version of TRL has no entropy bonus")
    common = settings(tmp_path, min_correct=MIN_CORRECT, entropy_coef=0.01)
    with pytest.raises(UsageError, match="loss_type: 'dr_grpo' counts rollouts"):
        SelectingConfig(**common)
    SelectingConfig(**(common | {"loss_type": "dapo"}))
    SelectingConfig(**common, group_selection="all")


def test_the_trainer_wants_its_own_settings_and_a_data_set_with_places(tmp_path):
    with pytest.raises(UsageError, match="args: expected a SelectingConfig, got NoneType"):
        SelectingTrainer(model=new_model(0), reward_funcs=graded)
    stream = Dataset.from_dict({"prompt": ["1+1?"] * 8}).to_iterable_dataset()
    with pytest.raises(UsageError, match="on_deselected: 'resample' picks further prompts by their place"):
        selecting(tmp_path, reward=graded, on_deselected="resample", extra={"train_dataset": stream})


def test_with_every_group_kept_it_is_the_trainer_it_derives_from(tmp_path):
    class RecordedCorpo(Recorded, CorpoTrainer):
        pass

    ours = train(tmp_path / "ours", group_selection="all", on_deselected="resample", reward=graded)
    theirs = train(tmp_path / "theirs", trainer=RecordedCorpo, group_selection="all", reward=graded)
    assert torch.equal(weights(ours), weights(theirs))
    assert logged(ours, 2).keys() == logged(theirs, 2).keys()
