"""A policy behind an OpenAI-compatible endpoint: vLLM, SGLang, `transformers serve`, or a provider's own."""

import asyncio
import contextlib
import os
import queue
import threading
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


@dataclass(frozen=True)
class EndpointPolicy:
    """A model that is asked over HTTP, as chat: each prompt is the user's only message.

    Raises:
        CorpoError: The library `openai` is not installed.
    """

    url: str
    """Where the API begins, e.g. "http://127.0.0.1:8000/v1"."""
    model: str
    """Name of the model, as the server knows it."""
    concurrency: int = 16
    """Requests at a time."""
    timeout: float = 120.0
    """Seconds to wait for one answer, each try."""
    retries: int = 5
    """Further tries after a 408, 409, 429 or 5xx or a broken connection, with exponential back-off; a Retry-After is
    heeded."""

    def __post_init__(self) -> None:
        if find_spec("openai") is None:
            raise MissingExtraError("asking an endpoint", "endpoint")

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.url}#{self.model}"

    def stream(self, requests: Sequence[SampleRequest], settings: SamplingSettings) -> Iterator[Sample]:
        """Completions as they arrive, in any order. A request's seed is passed on; whether it counts is the server's.

        An answer without text (all of it was reasoning, or a tool call) is an empty completion.

        Raises:
            DataError: Requests failed for good: refused, too slow, or answered with what is no completion. All
                others have been yielded before, unless 20 failed one after the other, which ends the job.
        """
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

        failures: list[str] = []
        in_a_row = 0
        waiting = iter(requests)
        async with AsyncOpenAI(
            base_url=self.url,
            api_key=os.environ.get(KEY_VARIABLE) or "none",
            timeout=self.timeout,
            max_retries=self.retries,
        ) as client:

            async def worker() -> None:
                nonlocal in_a_row
                for request in waiting:
                    if in_a_row >= _HOPELESS:
                        return
                    try:
                        arrived.put(await self._ask(client, request, settings))
                        in_a_row = 0
                    except _RequestFailed as failure:
                        failures.append(str(failure))
                        in_a_row += 1

            workers = [asyncio.create_task(worker()) for _ in range(min(self.concurrency, len(requests)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for task in workers:
                    task.cancel()
        if failures:
            rest = "; the rest was not tried" if in_a_row >= _HOPELESS else ""
            raise DataError(
                f"{self.url}: {len(failures)} of {len(requests)} requests failed{rest}; the last one: {failures[-1]}"
            )

    async def _ask(self, client: Any, request: SampleRequest, settings: SamplingSettings) -> Sample:
        import openai

        try:
            answer = await client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": request.prompt}],
                max_tokens=settings.max_new_tokens,
                temperature=settings.temperature,
                top_p=settings.top_p,
                seed=request.seed,
            )
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise UsageError(f"{self.url}: refused the key (status {error.status_code}); set {KEY_VARIABLE}") from None
        except openai.NotFoundError:
            names = await _model_names(client)
            raise UsageError(
                f"{self.url}: has no model {self.model!r} or no chat API; its models: {', '.join(names) or 'none'}"
            ) from None
        except openai.APITimeoutError:
            raise _RequestFailed(f"no answer in {self.timeout:g} s, {self.retries + 1} times; see --timeout") from None
        except openai.APIConnectionError as error:
            raise _RequestFailed(f"no connection ({_reason(error)}); is the server running?") from None
        except openai.APIStatusError as error:
            raise _RequestFailed(f"status {error.status_code} ({_reason(error)})") from None
        except Exception as error:  # what a client makes of an answer that is none depends on its version
            raise _RequestFailed(f"an answer that is no completion ({_reason(error)})") from None
        try:
            choice = answer.choices[0]
            text = choice.message.content
            reason = str(choice.finish_reason or "stop")
        except (AttributeError, TypeError, IndexError):
            raise _RequestFailed(f"an answer that is no completion ({str(answer)[:60]!r})") from None
        if text is not None and not isinstance(text, str):
            raise _RequestFailed(f"an answer whose text is none ({str(text)[:60]!r})")
        return Sample(request.key, text or "", reason)


class _RequestFailed(CorpoError):
    """One request came to nothing."""


def only_model(url: str, *, timeout: float) -> str:
    """The one model that an endpoint serves.

    Raises:
        DataError: The endpoint cannot be asked.
        UsageError: It serves none or several.
    """
    if find_spec("openai") is None:
        raise MissingExtraError("asking an endpoint", "endpoint")
    import openai

    key = os.environ.get(KEY_VARIABLE) or "none"
    try:
        with openai.OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=1) as client:
            names = [str(model.id) for model in client.models.list()]
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


def _reason(error: BaseException) -> str:
    """What an error says, and what caused it, on one line."""
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return one_line(" ".join(f"{type(error).__name__}: {error}{cause}".split()))[:200]
