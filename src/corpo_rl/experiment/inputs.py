"""From settings to a task, its items and a policy."""

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.evaluation import Sampler
from corpo_rl.experiment.settings import Settings
from corpo_rl.records import EVALUATION_SPLITS, TRAIN, Problem
from corpo_rl.tasks.base import Task

if TYPE_CHECKING:
    from corpo_rl.policies.local import LocalPolicy

PAIRS_FILE = "pairs.jsonl"
"""Copy of the pairs inside the experiment's folder, so that a moved or edited file changes nothing."""

TASK_FORMS = "mini, pairs, rubric, code, puzzles:NAME[,NAME...] or FILE.py:NAME of a Task class"

_DATA_OF = {
    "pairs": ("a pairs file", "make one with: corpo-rl pairs gsm8k"),
    "rubric": ("a file of rubric items", "docs/tasks.md shows the form"),
    "code": ("a file of problems with tests", "docs/problems.md shows the forms"),
}
"""Tasks whose items come from a file: what is in it, and how to come by one."""


def data_file(folder: Path, source: str | Path) -> Path:
    """Place inside an experiment's folder of a task's data file, which keeps the ending that tells its container."""
    return folder / f"data{Path(source).suffix}"


def with_own_files(settings: Settings, folder: Path) -> Settings:
    """Settings with the paths of the files that an experiment in `folder` keeps, so that another is made from these."""
    if settings.task == "pairs":
        return replace(settings, pairs=str(folder / PAIRS_FILE))
    return settings if settings.data is None else replace(settings, data=str(_kept_data(folder)))


def _kept_data(folder: Path) -> Path:
    return next(iter(sorted(folder.glob("data*"))), data_file(folder, ""))


def check_spec(spec: str, *, data: Path | None, reward: str | None) -> None:
    """Refuse what `task_from_spec` refuses without a look at a file.

    Raises:
        UsageError: An unknown reward, a file or a reward that the task does not take, or no file where it takes one.
    """
    if spec in _DATA_OF and data is None:
        what, how = _DATA_OF[spec]
        option = "--pairs" if spec == "pairs" else "--data"
        raise UsageError(f"{option}: expected the path of {what} for the task {spec} ({how})")
    if spec not in _DATA_OF and data is not None:
        raise UsageError(
            f"--data: the task {spec!r} takes no file, found {data}; leave it out, or give --task rubric or code"
        )
    if reward is not None:
        from corpo_rl.tasks.verifier import REWARDS

        if reward not in REWARDS:
            raise UsageError(f"--reward: expected one of {', '.join(REWARDS)}, got {reward!r}")
        if spec not in ("mini", "pairs"):
            raise UsageError(f"--reward: the task {spec!r} has a reward of its own, got {reward!r}; leave it out")


def task_from_spec(spec: str, *, data: Path | None, reward: str | None = None) -> Task:
    """The task of a name, as `--task`, `--data` and `--reward` give it.

    Args:
        spec: "mini", "pairs", "rubric", "code", "puzzles:NAME[,NAME...]", or "FILE.py:NAME", a class of the user's.
        data: File of the items of "pairs", "rubric" and "code"; None for the others.
        reward: For "mini" and "pairs" a name in `tasks.verifier.REWARDS`, or None for the task's own.

    Raises:
        UsageError: No such task or reward, the file is missing where one is needed, or one is given where none is.
        DataError: The file is broken.
    """
    check_spec(spec, data=data, reward=reward)
    if spec == "mini":
        from corpo_rl.tasks.mini import MiniTask

        return MiniTask() if reward is None else MiniTask(reward=reward)
    if data is not None:
        return _task_of_file(spec, data, reward=reward)
    if spec.partition(":")[0] == "puzzles":
        return _puzzles(spec)
    return _user_task(spec)


def load_task(settings: Settings, folder: Path) -> Task:
    """The task of an experiment in `folder`, on the folder's own copy of its file.

    Raises:
        UsageError: No such task.
        DataError: The task's file is broken.
    """
    data = None
    if settings.task == "pairs":
        data = folder / PAIRS_FILE
    elif settings.data is not None:
        data = _kept_data(folder)
    task = task_from_spec(settings.task, data=data, reward=settings.reward)
    if settings.min_correct is not None:
        task.min_correct = settings.min_correct
    return task


def _task_of_file(spec: str, data: Path, *, reward: str | None) -> Task:
    if spec == "pairs":
        from corpo_rl.pairs.files import read_pairs
        from corpo_rl.tasks.pairs import PairsTask

        items = read_pairs(data)
        return PairsTask(items) if reward is None else PairsTask(items, reward=reward)
    if spec == "rubric":
        from corpo_rl.pairs.rubric_files import read_rubric
        from corpo_rl.tasks.rubric import RubricTask

        return RubricTask(read_rubric(data))
    from corpo_rl.experiment.judging import ProgramJudges
    from corpo_rl.pairs.problems import read_usable_problems
    from corpo_rl.tasks.code import CodeTask

    read = read_usable_problems(data)
    if read.left_out:
        raise DataError(
            f"{read.left_out[0]} ({len(read.left_out):,} of {len(read.left_out) + len(read.problems):,} problems "
            "cannot be judged; leave them out of the file)"
        )
    return CodeTask(read.problems, judge=ProgramJudges())


def _puzzles(spec: str) -> Task:
    from corpo_rl.tasks.puzzles import PuzzlesTask

    names = tuple(name.strip() for name in spec.partition(":")[2].split(",") if name.strip())
    if not names:
        raise UsageError("--task: expected puzzles:NAME[,NAME...], got no name")
    return PuzzlesTask(names)


def _user_task(spec: str) -> Task:
    """An instance of the class NAME in the file of "FILE.py:NAME", the user's own code."""
    path, _, name = spec.rpartition(":")
    if not path.endswith(".py"):
        raise UsageError(f"--task: expected {TASK_FORMS}, got {spec!r}")
    if not Path(path).is_file():
        raise UsageError(f"--task: expected a Python file with a Task class, found no file {path}; check the path")
    module_spec = importlib.util.spec_from_file_location("corpo_rl_user_task", path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    module_spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise UsageError(f"--task: {path} has no class {name!r}")
    task: Task = getattr(module, name)()
    missing = [
        part
        for part in ("name", "min_correct", "unparsable_reward", "items", "prompt", "parse", "reward", "measures")
        if not hasattr(task, part)
    ]
    if missing:
        raise UsageError(f"--task: {spec} is not a Task, it lacks {', '.join(missing)} (see corpo_rl.tasks.base.Task)")
    return task


@dataclass(frozen=True)
class Items:
    """Items of a task whose prompts fit, by split, with the number left out as too long."""

    by_split: dict[str, Sequence[Any]]
    left_out: dict[str, int]


def fitting_items(task: Task, policy: "LocalPolicy", settings: Settings) -> Items:
    """Items whose rendered prompt is at most `max_prompt_tokens` long; evaluation splits cut to `eval_items`.

    Raises:
        DataError: No training item, or no evaluation item at all, fits.
        UsageError: The policy's vocabulary lacks characters of the prompts, or `max_new_tokens` is too few for every
            solution that the training items ship.
    """
    by_split: dict[str, Sequence[Any]] = {}
    left_out: dict[str, int] = {}
    all_lengths: list[int] = []
    for split in (TRAIN, *EVALUATION_SPLITS):
        items = list(task.items(split))
        prompts = [policy.render(task.prompt(item)) for item in items]
        encoded = policy.tokenizer(prompts)["input_ids"] if prompts else []
        _check_readable(task, policy, prompts, encoded)
        lengths = [len(ids) for ids in encoded]
        all_lengths += lengths
        fits = [item for item, n in zip(items, lengths, strict=True) if n <= settings.max_prompt_tokens]
        left_out[split] = len(items) - len(fits)
        by_split[split] = fits if split == TRAIN or not settings.eval_items else fits[: settings.eval_items]
    if not by_split[TRAIN] or not any(by_split[split] for split in EVALUATION_SPLITS):
        spread = f", of {min(all_lengths)} to {max(all_lengths)} tokens" if all_lengths else ""
        raise DataError(
            f"task {task.name}: expected items in split 'train' and in at least one of {', '.join(EVALUATION_SPLITS)} "
            f"within {settings.max_prompt_tokens} prompt tokens; {sum(left_out.values())} of {len(all_lengths)} were "
            f"too long (prompts{spread}; --max-prompt-tokens)"
        )
    _check_room(task, policy, by_split[TRAIN], settings)
    return Items(by_split, left_out)


def _check_readable(
    task: Task, policy: "LocalPolicy", prompts: Sequence[str], encoded: Sequence[Sequence[int]]
) -> None:
    """Refuse a policy that would read gaps: the embedded one knows no letters."""
    unknown = getattr(policy.tokenizer, "unk_token_id", None)
    if unknown is None:
        return
    # some tokenizers use one token for this and for ends of texts, which a chat template writes out
    written = str(policy.tokenizer.unk_token)
    n_gaps = sum(unknown in ids and written not in prompt for prompt, ids in zip(prompts, encoded, strict=True))
    if n_gaps:
        raise UsageError(
            f"--policy: {policy.name} cannot read {n_gaps} of {len(prompts)} prompts of the task {task.name}, its "
            "vocabulary lacks characters of them; give a policy that knows them, e.g. --policy smollm2"
        )


def _check_room(task: Task, policy: "LocalPolicy", items: Sequence[Any], settings: Settings) -> None:
    """Refuse a limit that cuts every answer short, where problems ship solutions that tell their length."""
    solutions = [
        item.reference.removeprefix(item.prompt)
        for item in items
        if isinstance(item, Problem) and item.reference is not None
    ]
    if not solutions:
        return
    shortest = min(len(ids) for ids in policy.tokenizer(solutions)["input_ids"])
    if shortest > settings.max_new_tokens:
        raise UsageError(
            f"--max-new-tokens: {settings.max_new_tokens} are too few for any of the {len(solutions)} solutions that "
            f"come with the task {task.name}, of which the shortest has {shortest} tokens; give more"
        )


def sampler(policy: "LocalPolicy", settings: Settings, *, seed: int) -> Sampler:
    """Sample from a policy under an experiment's settings, the same draws for the same seed."""

    def sample(prompts: Sequence[str], n: int) -> list[list[str]]:
        return policy.sample(
            prompts,
            n,
            max_new_tokens=settings.max_new_tokens,
            temperature=settings.temperature,
            seed=seed,
            batch_size=settings.eval_batch,
        )

    return sample


def load_base(settings: Settings, base_folder: Path) -> "LocalPolicy":
    """The policy every run starts from: the warm-started copy if there is one, else the one the settings name."""
    try:
        from corpo_rl.policies.local import load_policy
    except ImportError as error:
        if isinstance(error, CorpoError):
            raise
        from corpo_rl.errors import MissingExtraError

        raise MissingExtraError("training", "train") from error
    return on_device(load_policy(str(base_folder / "policy") if settings.warmup_steps else settings.policy), settings)


def on_device(policy: "LocalPolicy", settings: Settings) -> "LocalPolicy":
    """Move a policy to the device of the settings; it stays on the CPU without one.

    Raises:
        UsageError: This machine has no such device.
    """
    check_device(settings)
    if settings.device is not None:
        policy.model.to(settings.device)
    return policy


def check_device(settings: Settings) -> None:
    """Refuse a device that is not there.

    Raises:
        UsageError: This machine has no such device.
    """
    if settings.device is None:
        return
    import torch

    if not torch.cuda.is_available():
        raise UsageError("--device: expected a CUDA device that torch can use, found none; leave the option out")
