"""One way to name a policy, wherever it lives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from corpo_rl.errors import DataError, MissingExtraError
from corpo_rl.policies.endpoint import EndpointPolicy, only_model

if TYPE_CHECKING:
    from corpo_rl.policies.local import LocalPolicy

ADAPTER_FILE = "adapter_config.json"


def open_policy(
    spec: str,
    *,
    batch_size: int = 16,
    concurrency: int = 16,
    timeout: float = 120.0,
    retries: int = 5,
    most_tokens: int | None = None,
) -> "LocalPolicy | EndpointPolicy":
    """The policy of a name; both kinds have `name` and `stream`.

    Args:
        spec: "mini", "smollm2", a folder that `save_pretrained` wrote (of a model or of a PEFT adapter), the id of a
            model on the Hugging Face hub, or the URL of an OpenAI-compatible API, "http://host:port/v1#MODEL". Without
            "#MODEL" the only model that it serves is taken.
        batch_size: Completions that a local model generates at once.
        concurrency: Requests at a time to an endpoint.
        timeout: Seconds an endpoint may take for one answer.
        retries: Further tries of a request.
        most_tokens: Budget of new tokens, after which `stream` ends early; None for no end.

    Raises:
        DataError: A folder without a model, a hub id that cannot be fetched, an adapter without its base, an endpoint
            that does not answer.
        UsageError: An endpoint with several models and none named, or one that refuses the key; a setting out of range.
        CorpoError: The libraries that the kind needs are not installed.
    """
    if spec.startswith(("http://", "https://")):
        url, _, model = spec.partition("#")
        url = url.rstrip("/")
        return EndpointPolicy(
            url,
            model or only_model(url, timeout=timeout),
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            most_tokens=most_tokens,
        )
    try:
        from corpo_rl.policies.local import load_policy
    except ImportError:
        raise MissingExtraError(f"a local model ({spec})", "train") from None
    is_adapter = (Path(spec) / ADAPTER_FILE).is_file()
    policy = _with_adapter(Path(spec)) if is_adapter else load_policy(spec)
    return replace(policy, batch_size=batch_size, most_tokens=most_tokens)


def _with_adapter(folder: Path) -> "LocalPolicy":
    """The base model of a PEFT adapter with the adapter's change in its weights, and the tokenizer saved with it.

    Trainers save a tokenizer beside the adapter, which may have a chat template that the base's has not.
    """
    try:
        from peft import PeftModel
    except ImportError:
        raise MissingExtraError(f"a PEFT adapter ({folder})", "train") from None
    from corpo_rl.policies.local import load_policy, load_tokenizer

    file = folder / ADAPTER_FILE
    try:
        base = json.loads(file.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{file}: expected a field base_model_name_or_path, found none") from None
    if not isinstance(base, str):
        raise DataError(f"{file}: base_model_name_or_path: expected text, found {base!r}")
    try:
        policy = load_policy(base)
    except DataError as error:
        raise DataError(f"{file}: its base model cannot be loaded: {error}") from None
    try:
        model = PeftModel.from_pretrained(policy.model, str(folder)).merge_and_unload()
        own = (folder / "tokenizer_config.json").is_file()
        tokenizer = load_tokenizer(str(folder)) if own else policy.tokenizer
    except Exception as error:  # foreign readers of a foreign file raise what they like
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{folder}: expected a PEFT adapter for {base}: {reason}") from error
    return replace(policy, model=model, tokenizer=tokenizer, name=str(folder))
