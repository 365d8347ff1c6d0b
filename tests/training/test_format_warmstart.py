import pytest
import torch
from safetensors import SafetensorError

from corpo_rl.errors import DataError, ParseFailure, UsageError
from corpo_rl.policies.local import LocalPolicy
from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.tasks.base import grade
from corpo_rl.training import format_warmstart
from corpo_rl.training.format_warmstart import warm_start_format

pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning")  # transformers' own deprecations, in its trainer


class Doubling:
    """Prompt "3+3?", completion "=6"."""

    name = "doubling"
    min_correct = 1.0
    unparsable_reward = -1.0

    def items(self, split):
        return list(range(10, 50)) if split == "train" else list(range(50, 60))

    def prompt(self, item):
        return f"{item}+{item}?"

    def parse(self, completion):
        if len(completion) != 3 or completion[0] != ";" or not completion[1:].isdigit():
            raise ParseFailure("form")
        return int(completion[1:])

    def reward(self, item, answer):
        return 1.0 - abs(answer - 2 * item) / 100

    def measures(self, item, answer):
        return {}


class Taught(Doubling):
    def format_example(self, item, rng):
        return f";{rng.integers(10, 100)}"


def untrained():
    return LocalPolicy(model=new_model(0), tokenizer=build_tokenizer(), name="untrained")


def parsed_share(policy, task):
    items = task.items("in_domain")
    rows = policy.sample(
        [task.prompt(item) for item in items], 8, max_new_tokens=5, temperature=1, seed=0, batch_size=80
    )
    graded = [grade(task, item, text) for item, row in zip(items, rows, strict=True) for text in row]
    return sum(one.failure is None for one in graded) / len(graded)


def weights(policy):
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()])


def test_teaches_the_form_and_does_it_once(tmp_path):
    task, steps_seen = Taught(), []
    assert parsed_share(untrained(), task) < 0.05
    taught = warm_start_format(
        untrained(),
        task,
        task.items("train"),
        output_dir=tmp_path / "base",
        seed=0,
        steps=60,
        batch_size=16,
        learning_rate=3e-3,
        on_step=steps_seen.append,
    )
    assert steps_seen == list(range(1, 61))
    assert parsed_share(taught, task) > 0.8
    assert [path.name for path in (tmp_path / "base").iterdir()] == ["policy"], "nothing else may stay"

    again = warm_start_format(
        untrained(),
        task,
        task.items("train"),
        output_dir=tmp_path / "base",
        seed=0,
        steps=60,
        on_step=steps_seen.append,
    )
    assert len(steps_seen) == 60, "the second call must not train"
    assert again.name == "untrained"
    assert torch.equal(weights(again), weights(taught))


def test_a_run_that_was_cut_short_starts_again(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    task = Taught()
    with monkeypatch.context() as patch:
        patch.setattr(format_warmstart, "train_supervised", killed)
        with pytest.raises(KeyboardInterrupt):
            warm_start_format(untrained(), task, task.items("train"), output_dir=tmp_path / "a", seed=0, steps=2)
    assert not (tmp_path / "a" / "policy").exists()
    resumed, whole = (
        warm_start_format(untrained(), task, task.items("train"), output_dir=tmp_path / name, seed=0, steps=2)
        for name in ("a", "b")
    )
    assert torch.equal(weights(resumed), weights(whole))


@pytest.mark.parametrize(
    ("task", "items", "changes", "error", "message"),
    [
        (
            Doubling(),
            [1],
            {},
            UsageError,
            r"task doubling: a format warm start needs its method format_example\(item, r",
        ),
        (Taught(), [], {}, DataError, "task doubling: expected training items for the format warm start, found none"),
        (Taught(), [1], {"steps": 0}, UsageError, "steps: expected at least 1, got 0"),
        (Taught(), [1], {"batch_size": 0}, UsageError, "batch_size: expected at least 1, got 0"),
    ],
)
def test_bad_calls(tmp_path, task, items, changes, error, message):
    with pytest.raises(error, match=message):
        warm_start_format(untrained(), task, items, output_dir=tmp_path, **{"seed": 0, "steps": 1, **changes})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error", [SafetensorError("I/O error:\nNo space left on device"), OSError(28, "No space left")]
)
def test_full_disk_leaves_no_half_written_policy(tmp_path, monkeypatch, error):
    def fails(*_, **__):
        raise error

    policy, task = untrained(), Taught()
    monkeypatch.setattr(format_warmstart, "train_supervised", lambda *_, **__: None)
    monkeypatch.setattr(policy.model, "save_pretrained", fails)
    with pytest.raises(
        DataError, match=r"policy: could not be written \(.*No space left.*\); free space there"
    ) as raised:
        warm_start_format(policy, task, task.items("train"), output_dir=tmp_path, seed=0, steps=1)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
