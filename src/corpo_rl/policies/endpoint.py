"""A policy behind an OpenAI-compatible endpoint: vLLM, SGLang, `transformers serve`, or a provider's own."""

import asyncio
import contextlib
import os
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from corpo_rl.errors import CorpoError, DataError, MissingExtraError, UsageError, one_line
from corpo_rl.records import Sample, SampleRequest, SamplingSettings

KEY_VARIABLE = "OPENAI_API_KEY"
"""Environment variable with the endpoint's key; local servers want none."""

_HOPELESS = 20
"""Requests that may fail one after the other before the rest is given up."""
_LONGEST_PAUSE = 60.0
"""Seconds of the longest Retry-After that the client heeds; its own pauses are shorter."""


@dataclass(frozen=True)
class EndpointPolicy:
    """A model that is asked over HTTP, as chat: each prompt is the user's only message.

    Temperature, top_p, seed and length are passed on. What else shapes the draws is the server's: vLLM and
    `transformers serve` take top_k and repetition_penalty from the model's own generation_config.json, greedy decoding
    included (`vllm serve --generation-config vllm` does not), and `transformers serve` draws at all only where that
    file says `do_sample`: elsewhere it answers greedily at every temperature.

    Raises:
        UsageError: `concurrency` or `most_tokens` is under 1, `retries` under 0, or `timeout` not above 0.
        CorpoError: The library `openai` is not installed.
    """

    url: str
    """Where the API begins, e.g. "http://127.0.0.1:8000/v1"."""
    model: str
    """Name of the model, as the server knows it."""
    concurrency: int = 16
    """Requests at a time."""
    timeout: float = 120.0
    """Seconds that a server may be silent, each try; all tries of a request together, with the longest pauses between
    them, also bound a server that sends its answer byte by byte."""
    retries: int = 5
    """Further tries after a 408, 409, 429 or 5xx or a broken connection, with exponential back-off; a Retry-After is
    heeded."""
    most_tokens: int | None = None
    """Budget of `stream`: new tokens of all its answers, by the server's own count. No request is begun that could
    exceed it. An answer without a count, or none at all, counts as `max_new_tokens`."""

    def __post_init__(self) -> None:
        check_at_least(concurrency=(self.concurrency, 1), retries=(self.retries, 0), most_tokens=(self.most_tokens, 1))
        if not self.timeout > 0:
            raise UsageError(f"timeout: expected seconds above 0, found {self.timeout}")
        if find_spec("openai") is None:
            raise MissingExtraError("asking an endpoint", "endpoint")

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.url}#{self.model}"

    def stream(self, requests: Sequence[SampleRequest], settings: SamplingSettings) -> Iterator[Sample]:
        """Completions as they arrive, in any order. A request's seed is passed on; whether it counts is the server's.

        An answer without text (all of it was reasoning, or a tool call) is an empty completion. With `most_tokens` the
        stream ends early when they are used up.

        Raises:
            DataError: Requests failed for good: refused, too slow, or answered with what is no completion. All
                others have been yielded before, unless 20 failed one after the other, which ends the job.
            UsageError: The server refuses the key or has no such model, which also ends the job; or `most_tokens` is
                less than `max_new_tokens`.
        """
        check_budget(self.most_tokens, settings)
        arrived: queue.SimpleQueue[Sample | BaseException | None] = queue.SimpleQueue()
        loop = asyncio.new_event_loop()
        # in a thread of its own, so that it also works where a loop runs already, as in a notebook
        job: asyncio.Task[None] = loop.create_task(self._ask_all(requests, settings, arrived))
        thread = threading.Thread(target=_run, args=(loop, job, arrived), daemon=True)
        thread.start()
        try:
            while (item := arrived.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(job.cancel)
            thread.join()

    async def _ask_all(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings, arrived: "queue.SimpleQueue[Any]"
    ) -> None:
        from openai import AsyncOpenAI

        failures: list[tuple[str, str]] = []
        in_a_row = 0
        tokens = 0  # used, and held for requests on their way
        waiting = iter(requests)
        async with AsyncOpenAI(
            base_url=self.url, api_key=_key(), timeout=self.timeout, max_retries=self.retries
        ) as client:

            async def worker() -> None:
                nonlocal in_a_row, tokens
                while in_a_row < _HOPELESS:
                    if self.most_tokens is not None and tokens + settings.max_new_tokens > self.most_tokens:
                        return  # a worker whose request gives back a part of what was held for it may go on
                    if (request := next(waiting, None)) is None:
                        return
                    tokens += settings.max_new_tokens
                    try:
                        sample, used = await self._ask(client, request, settings)
                    except _RequestFailed as failure:
                        failures.append((request.key, str(failure)))
                        in_a_row += 1
                    else:
                        arrived.put(sample)
                        in_a_row = 0
                        tokens += used - settings.max_new_tokens

            workers = [asyncio.create_task(worker()) for _ in range(min(self.concurrency, len(requests)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for task in workers:
                    task.cancel()
        if failures:
            rest = "; the rest was not tried" if in_a_row >= _HOPELESS else ""
            raise DataError(
                f"{self.url}: {len(failures)} of {len(requests)} requests failed{rest}: {_counted(failures)}"
            )

    async def _ask(self, client: Any, request: SampleRequest, settings: SamplingSettings) -> tuple[Sample, int]:
        """The completion of a request, and its new tokens."""
        import openai

        try:
            # the client's own limit is on each read, which a few bytes now and then satisfy for ever
            async with asyncio.timeout(self.timeout + self.retries * (self.timeout + _LONGEST_PAUSE)):
                answer = await client.chat.completions.create(
                    model=self.model,
                    messages=[{"role": "user", "content": request.prompt}],
                    max_tokens=settings.max_new_tokens,
                    temperature=settings.temperature,
                    top_p=settings.top_p,
                    seed=request.seed,
                )
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise _refused(self.url, error.status_code) from None
        except openai.NotFoundError:
            names = await _model_names(client)
            has = f"its models: {', '.join(names)}" if names else "it lists no models either; does the URL end in /v1?"
            raise UsageError(f"{self.url}: has no model {self.model!r} or no chat API; {has}") from None
        except (openai.APITimeoutError, TimeoutError):
            raise _RequestFailed(f"no answer in {self.timeout:g} s, {self.retries + 1} times; see --timeout") from None
        except openai.APIConnectionError as error:
            raise _RequestFailed(f"no connection, or a broken one ({_reason(error)}); is the server running?") from None
        except openai.APIStatusError as error:
            # the client's message leaves out a body that is not in OpenAI's form, as FastAPI's {"detail": ...}
            said = _told(error.response.text) or _reason(error)
            raise _RequestFailed(f"status {error.status_code} ({said})") from None
        except Exception as error:  # what a client makes of an answer that is none depends on its version
            raise _RequestFailed(f"an answer that is no completion ({_reason(error)})") from None
        try:
            choice = answer.choices[0]
            text = choice.message.content
            reason = str(choice.finish_reason or "stop")
        except (AttributeError, TypeError, LookupError):
            raise _RequestFailed(f"an answer that is no completion ({str(answer)[:60]!r})") from None
        if text is not None and not isinstance(text, str):
            raise _RequestFailed(f"an answer whose text is none ({str(text)[:60]!r})")
        used = getattr(getattr(answer, "usage", None), "completion_tokens", None)
        # half a surrogate pair, which a server can escape but no file or tokenizer takes, becomes a question mark
        whole = (text or "").encode(errors="replace").decode()
        return Sample(request.key, whole, reason), used if type(used) is int else settings.max_new_tokens


class _RequestFailed(CorpoError):
    """One request came to nothing."""


def only_model(url: str, *, timeout: float) -> str:
    """The one model that an endpoint serves.

    Raises:
        DataError: The endpoint cannot be asked.
        UsageError: It serves none or several, or refuses the key.
    """
    if find_spec("openai") is None:
        raise MissingExtraError("asking an endpoint", "endpoint")
    import openai

    try:
        with openai.OpenAI(base_url=url, api_key=_key(), timeout=timeout, max_retries=1) as client:
            names = [str(model.id) for model in client.models.list()]
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise _refused(url, error.status_code) from None
    except Exception as error:  # as above
        raise DataError(
            f"{url}: expected an OpenAI-compatible server, but its list of models cannot be read ({_reason(error)}); "
            "name the model yourself: URL#MODEL"
        ) from None
    if len(names) != 1:
        listed = ", ".join(names[:8]) or "none"
        raise UsageError(f"{url}: expected one model, found {len(names)} ({listed}); name one: {url}#MODEL")
    return names[0]


async def _model_names(client: Any) -> list[str]:
    try:
        return [str(model.id) async for model in client.models.list()][:8]
    except Exception:  # only to help with another error
        return []


def _run(loop: asyncio.AbstractEventLoop, job: "asyncio.Task[None]", arrived: "queue.SimpleQueue[Any]") -> None:
    asyncio.set_event_loop(loop)
    end: BaseException | None = None
    try:
        loop.run_until_complete(job)
    except asyncio.CancelledError:
        pass
    except BaseException as error:  # it is raised where the stream is read
        end = error
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    arrived.put(end)


def check_at_least(**values: tuple[int | None, int]) -> None:
    """Check settings against the least that each may be; None is always allowed.

    Raises:
        UsageError: A value is under its least; names it.
    """
    for name, (value, least) in values.items():
        if value is not None and value < least:
            raise UsageError(f"{name}: expected at least {least}, found {value}")


def check_budget(most_tokens: int | None, settings: SamplingSettings) -> None:
    """Check that a budget allows one answer.

    Raises:
        UsageError: It does not.
    """
    if most_tokens is not None and most_tokens < settings.max_new_tokens:
        raise UsageError(
            f"a budget of {most_tokens} tokens: one answer may take {settings.max_new_tokens}; raise the one or lower "
            "the other"
        )


def _key() -> str:
    return os.environ.get(KEY_VARIABLE) or "none"


def _refused(url: str, status: int) -> UsageError:
    # the server's own words may quote the key
    return UsageError(f"{url}: refused the key (status {status}); set {KEY_VARIABLE}")


def _counted(failures: Sequence[tuple[str, str]]) -> str:
    """Key and reason of each failed request -> the commonest reasons, how often, and the first request of each."""
    first: dict[str, str] = {}
    for key, reason in failures:
        first.setdefault(reason, key)
    counts = Counter(reason for _, reason in failures).most_common()
    told = [f"{reason} ({count}, first {first[reason]})" for reason, count in counts[:3]]
    return "; ".join(told) + (f"; and {len(counts) - 3} more kinds" if len(counts) > 3 else "")


def _reason(error: BaseException) -> str:
    """What an error says, and what caused it."""
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return _told(f"{type(error).__name__}: {error}{cause}")


def _told(text: str) -> str:
    """The text on one line of bounded length; without the key, which a server may quote."""
    key = os.environ.get(KEY_VARIABLE)
    said = " ".join((text.replace(key, "***") if key else text).split())
    return one_line(said)[:200]
