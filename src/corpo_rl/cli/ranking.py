"""What the commands that ask a verifier about pairs share: how it is sampled, opened and watched."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from corpo_rl.cli.extras import check_extras, needs_of_policies
from corpo_rl.errors import UsageError

if TYPE_CHECKING:
    from corpo_rl.ranking.rank import Stream
    from corpo_rl.records import Sample, SampleRequest, SamplingSettings
    from corpo_rl.tasks.base import Task

CALLS_FILE = "calls.jsonl"
"""Where the completions of a verifier are kept."""

_Command = TypeVar("_Command", bound=Callable[..., Any])

_ASKING = (
    click.option("--batch-size", type=click.IntRange(min=1), default=16, show_default=True, help="Of a local model."),
    click.option("--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Of an endpoint."),
    click.option(
        "--timeout", type=click.FloatRange(min=0.1), default=120.0, show_default=True, help="Seconds for one answer."
    ),
    click.option(
        "--retries", type=click.IntRange(min=0), default=5, show_default=True, help="Further tries of a request."
    ),
)


def asking_options(command: _Command) -> _Command:
    """The options of `open_policy`, to be passed on to `open_verifier`."""
    for option in reversed(_ASKING):
        command = option(command)
    return command


def sampling_of(*, samples: int, temperature: float | None, max_new_tokens: int) -> "SamplingSettings":
    """How the verifier is sampled: greedily for one sample, at temperature 1 for more, unless told otherwise.

    Raises:
        UsageError: Several samples are asked for at temperature 0, where all are the same.
    """
    from corpo_rl.records import SamplingSettings

    if temperature is None:
        temperature = 0.0 if samples == 1 else 1.0
    if samples > 1 and temperature == 0:
        raise UsageError(f"--samples {samples} at --temperature 0: all would be the same; take a temperature above 0")
    return SamplingSettings(max_new_tokens=max_new_tokens, temperature=temperature)


def task_of(name: str) -> "Task":
    """The task that asks about two answers: "pairs" or "mini"."""
    from corpo_rl.records import TRAIN, VerifierItem
    from corpo_rl.tasks.mini import MiniTask
    from corpo_rl.tasks.pairs import PairsTask

    if name == "mini":
        return MiniTask()
    # the task asks for an item of its own, but is only used to ask about others
    return PairsTask([VerifierItem("", "", "", "", label_a=0, label_b=0, domain="", split=TRAIN)])


@contextmanager
def open_verifier(model: str, *, calls: Path | None, total: int, **asking: Any) -> Iterator["Stream"]:
    """The stream of a policy, with a progress bar on stderr.

    Args:
        model: Spec of the policy.
        calls: File that keeps the completions, for the same command to go on with; None to keep none.
        total: Completions expected.
        asking: Options of `open_policy`.

    Raises:
        MissingExtraError: The libraries that this kind of policy needs are not installed.
    """
    check_extras(f"the verifier {model}", needs_of_policies([model]))
    from tqdm import tqdm

    from corpo_rl.policies.endpoint import EndpointPolicy
    from corpo_rl.policies.opening import open_policy
    from corpo_rl.ranking.calls import kept_calls

    policy = open_policy(model, **asking)
    # not the address, which may be another when the ranking goes on
    name = policy.model if isinstance(policy, EndpointPolicy) else policy.name
    stream: Stream = policy.stream if calls is None else kept_calls(policy.stream, calls, policy=name)
    with tqdm(total=total, desc="comparing", unit="completion") as bar:

        def watched(requests: Sequence["SampleRequest"], sampling: "SamplingSettings") -> Iterator["Sample"]:
            for sample in stream(requests, sampling):
                bar.update()
                yield sample

        yield watched
