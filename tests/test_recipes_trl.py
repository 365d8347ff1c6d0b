"""The TRL recipes: their settings pass TRL and accelerate, and their scripts train, save and go on, on a CPU."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from click.testing import CliRunner
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, TrainingArguments
from trl import ModelConfig, TrlParser

from corpo_rl.cli.main import cli
from corpo_rl.core.advantages import corpo_advantages
from corpo_rl.training.trl import CorpoConfig

ROOT = Path(__file__).parent.parent / "recipes"
RECIPES = ("paper-trl", "one-gpu")
MIN_CORRECT = 0.2

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning")

ON_CPU = {
    "use_cpu": "true",
    "bf16": "false",
    "dtype": "float32",
    "use_vllm": "false",
    "vllm_enable_sleep_mode": "false",
    "gradient_accumulation_steps": "2",
    "per_device_train_batch_size": "8",
    "max_completion_length": "2",
    "max_steps": "2",
    "eval_strategy": "steps",
    "eval_steps": "2",
    "save_steps": "2",
    "dataloader_pin_memory": "false",
}
"""What a CPU changes of a recipe, and two steps; everything else is the recipe's own."""

ON_FSDP_WITH_CPUS = """
import runpy, sys
from types import SimpleNamespace
import accelerate.state
kinds = {kind.name: kind for kind in accelerate.state.DistributedType}
accelerate.state.DistributedType = SimpleNamespace(**kinds | {"MULTI_MUSA": kinds["MULTI_CPU"]})
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""accelerate shards on GPUs only; a CPU takes the place of one kind of them that is not here."""


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    """A random Qwen3 of two layers over whole answers and tokens without text: some of what it draws is right."""
    folder = tmp_path_factory.mktemp("tiny")
    specials = {name: f"<{name[:3]}>" for name in ("pad_token", "bos_token", "eos_token", "unk_token")}
    silent = [f"<{number}>" for number in range(10)]
    answers = [f"A: {a}\nB: {b}" for a, b in ((9, 1), (1, 9), (8, 4), (4, 6), (5, 5), (7, 2), (3, 8), (10, 10))]
    words = [*specials.values(), *silent, *answers]
    model = WordLevel({word: index for index, word in enumerate(words)}, unk_token=specials["unk_token"])
    built = Tokenizer(model)
    built.pre_tokenizer = Split(Regex("."), behavior="isolated")
    built.decoder = Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=built, additional_special_tokens=silent, **specials)
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=4096,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def pairs(tmp_path):
    """Pairs of sums, one right and one wrong. The fifth of the 31 to train on has a prompt that is too long."""
    path = tmp_path / "pairs.jsonl"
    rows = []
    for number in range(10, 50):
        a_is_right = number % 2 == 0
        answers = (2 * number, 2 * number + 1) if a_is_right else (2 * number + 1, 2 * number)
        row = {"problem": f"{number}+{number}", "answer_a": str(answers[0]), "answer_b": str(answers[1])}
        row |= {"item_id": f"sum-{number}"}
        row |= {"label_a": int(a_is_right), "label_b": int(not a_is_right), "domain": "sums"}
        rows.append(row | {"split": "in_domain" if number % 4 == 0 else "train"})
    rows.insert(5, rows[0] | {"problem": "1+" * 1500 + "1", "split": "train", "item_id": "long"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def settings_of(recipe):
    return yaml.safe_load((ROOT / recipe / "config.yaml").read_text())


def page_of(recipe):
    return (ROOT / recipe / "README.md").read_text()


def arguments_of(recipe, *arguments):
    return [str(part) for part in (ROOT / recipe / "train.py", "--config", ROOT / recipe / "config.yaml", *arguments)]


def flags(changes):
    return [part for name, value in changes.items() for part in (f"--{name}", value)]


def run(command, folder, **environment):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def run_here(recipe, monkeypatch, *arguments):
    """Run a script in this process, which has its imports already."""
    monkeypatch.setattr(sys, "argv", arguments_of(recipe, *arguments))
    runpy.run_path(sys.argv[0], run_name="__main__")


def functions_of(recipe):
    return runpy.run_path(str(ROOT / recipe / "train.py"), run_name="read")


def completion_log(out):
    files = sorted((out / "completions").glob("*.parquet"))
    assert files
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def reward_by_hand(row):
    """As the README has it: R = min(s_A, s_B), s_k = (2 y_k - 1)(v_k - 5) / 5, and -1 for what cannot be read."""
    answer = re.fullmatch(r"A: (\d+)\nB: (\d+)", row["completion"][0]["content"])
    number = int(re.match(r"Problem: (\d+)\+", row["prompt"][0]["content"]).group(1))
    assert row["pair"] == f"sum-{number}"
    if answer is None:
        return -1.0
    labels = (1, 0) if number % 2 == 0 else (0, 1)
    return min((2 * label - 1) * (int(score) - 5) / 5 for label, score in zip(labels, answer.groups(), strict=True))


def check_log(out, *, rollouts):
    """Rewards are those of the formula for the pair of the prompt, advantages those of core for these rewards."""
    log = completion_log(out)
    np.testing.assert_allclose(log["corpo_reward"], [reward_by_hand(row) for _, row in log.iterrows()], atol=1e-6)
    trained = log[log["corpo_split"] == "train"]
    assert len(trained) == rollouts
    expected = corpo_advantages(trained["corpo_reward"], trained["corpo_group"].tolist(), min_correct=MIN_CORRECT)
    np.testing.assert_allclose(trained["advantage"], expected, atol=1e-6)
    assert set(trained.groupby("corpo_group").size()) == {8}
    assert (trained["advantage"] > 0).any(), "some answers of the random model have to be right"
    assert trained["corpo_reward"].nunique() > 2, "and others wrong in more than one way"


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_steps(recipe, tiny_model, pairs, tmp_path):
    out = tmp_path / "out"
    here = ["--pairs", pairs, "--model_name_or_path", tiny_model, "--output_dir", out, *flags(ON_CPU)]
    done = run(arguments_of(recipe, *here), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "train: 30 pairs, 1 left out" in done.stderr
    assert "in_domain: 10 pairs, 0 left out" in done.stderr

    state = json.loads((out / "checkpoint-2" / "trainer_state.json").read_text())
    steps = [entry for entry in state["log_history"] if "loss" in entry]
    assert [entry["step"] for entry in steps] == [1, 2]
    for entry in steps:
        assert entry["corpo/reinforced_failure_share"] == 0.0
        assert 0 < entry["parse_failure_rate"] < 1
        assert entry["grad_norm"] > 0
    assert any("eval_corpo/correct_share" in entry for entry in state["log_history"])
    check_log(out, rollouts=16)  # TRL writes those of the evaluation after step 2 over those of step 2

    if recipe == "one-gpu":
        adapter = load_file(out / "adapter_model.safetensors")
        assert any(weight.abs().max() > 0 for name, weight in adapter.items() if "lora_B" in name), "it starts at 0"
    else:
        before, after = load_file(tiny_model / "model.safetensors"), load_file(out / "model.safetensors")
        assert set(before) == set(after)
        assert any(not torch.equal(before[name], after[name]) for name in before)


def test_it_goes_on_from_the_newest_checkpoint_that_is_whole(tiny_model, pairs, tmp_path, monkeypatch):
    out = tmp_path / "out"
    changes = ON_CPU | {"eval_strategy": "no", "save_steps": "1", "resume_from_checkpoint": "true", "max_steps": "1"}
    here = ["--pairs", pairs, "--model_name_or_path", tiny_model, "--output_dir", out, "--disable_tqdm", "true"]
    run_here("paper-trl", monkeypatch, *here, *flags(changes))  # there is none yet
    (out / "checkpoint-9").mkdir()
    (out / "checkpoint-9" / "model.safetensors").touch()  # a kill came before its end
    run_here("paper-trl", monkeypatch, *here, *flags(changes | {"max_steps": "2"}))

    state = json.loads((out / "checkpoint-2" / "trainer_state.json").read_text())
    assert [entry["step"] for entry in state["log_history"] if "loss" in entry] == [1, 2]
    first, second = (path.stat().st_mtime_ns for path in sorted((out / "completions").glob("*.parquet")))
    assert first < second


def test_what_true_means_for_resuming(tmp_path):
    for recipe in RECIPES:
        resume = functions_of(recipe)["checkpoint_to_resume"]
        folder = tmp_path / recipe
        for step in (2, 10, 30):
            (folder / f"checkpoint-{step}").mkdir(parents=True)
            (folder / f"checkpoint-{step}" / "model.safetensors").touch()
        assert resume(None, folder) is None
        assert resume("elsewhere/checkpoint-1", folder) == "elsewhere/checkpoint-1"
        assert resume("true", folder) is None
        for step in (2, 10):
            (folder / f"checkpoint-{step}" / "trainer_state.json").touch()
        assert resume("True", folder) == str(folder / "checkpoint-10")


def test_the_answer_is_what_follows_the_reasoning():
    for recipe in RECIPES:
        answer_of = functions_of(recipe)["answer_of"]
        for text, answer in {
            "A: 9\nB: 1": "A: 9\nB: 1",
            "<think>A: 0\nB: 0</think>A: 9\nB: 1": "A: 9\nB: 1",
            "<think>A: 9\nB: 1": "",  # cut off while it reasoned
        }.items():
            assert answer_of([{"role": "assistant", "content": text}]) == answer


def test_two_ranks_of_fsdp2_train_and_save_the_whole_model(tiny_model, pairs, tmp_path):
    out = tmp_path / "out"
    fsdp = load_config_from_file(str(ROOT / "paper-trl" / "fsdp2.yaml")).fsdp_config
    names = {"fsdp_transformer_layer_cls_to_wrap": "FSDP_TRANSFORMER_CLS_TO_WRAP"}  # as accelerate launch has it
    environment = {names.get(name, name.upper()): str(value) for name, value in fsdp.items()}
    runner = tmp_path / "runner.py"
    runner.write_text(ON_FSDP_WITH_CPUS)
    changes = ON_CPU | {"eval_strategy": "no"}
    done = run(
        [
            *("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(runner)),
            *arguments_of("paper-trl", "--pairs", pairs, "--model_name_or_path", tiny_model, "--output_dir", out),
            *flags(changes),
        ],
        tmp_path,
        ACCELERATE_USE_FSDP="true",
        **environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr.count("train: 30 pairs") == 1, "said once, not by each rank"
    assert list((out / "checkpoint-2" / "pytorch_model_fsdp_0").glob("*.distcp")), "the run was sharded"
    check_log(out, rollouts=2 * 2 * 16)
    before, after = load_file(tiny_model / "model.safetensors"), load_file(out / "model.safetensors")
    assert {name: weight.shape for name, weight in before.items()} == {n: weight.shape for n, weight in after.items()}
    assert any(not torch.equal(before[name], after[name]) for name in before)


def parsed(recipe, *arguments):
    """Settings as TRL reads and checks them."""
    changes = flags({"use_cpu": "true", "bf16": "false", "output_dir": "unused"})
    command = ["--config", str(ROOT / recipe / "config.yaml"), *changes, *arguments]
    config, model, *_ = TrlParser((CorpoConfig, ModelConfig)).parse_args_and_config(
        command, return_remaining_strings=True
    )
    return config, model


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_settings_pass_trl_and_are_those_of_the_page(recipe):
    config, model = parsed(recipe)
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", page_of(recipe), flags=re.MULTILINE)
    assert len(rows) >= 14
    written = settings_of(recipe)
    for name, value in rows:
        assert str(written[name]) == value, name
        if name not in ("max_prompt_length", "bf16"):  # the script's own, and the one a CPU cannot have
            assert getattr(config, name, getattr(model, name, None)) == written[name], name
    assert config.scale_rewards == "none"


def test_trl_counts_the_batch_as_the_page_does(monkeypatch):
    settings, machine = settings_of("paper-trl"), load_config_from_file(str(ROOT / "paper-trl" / "fsdp2.yaml"))
    assert str(machine.distributed_type) == "DistributedType.FSDP"
    assert machine.fsdp_config["fsdp_version"] == 2
    assert machine.mixed_precision == "bf16"
    assert settings["max_prompt_length"] + settings["max_completion_length"] == settings["vllm_max_model_length"]
    assert settings["vllm_max_model_length"] == 16_384
    assert settings["learning_rate"] == 1e-6

    # ranks, arguments of the page -> rollouts a step, prompts a step, rollouts a GPU generates
    cases = {
        (machine.num_processes, ()): (512, 64, 64),
        (machine.num_processes, ("--gradient_accumulation_steps", "512")): (4096, 512, 512),
        (4, ("--gradient_accumulation_steps", "128")): (512, 64, 128),
    }
    assert machine.num_processes == 8
    for (ranks, arguments), (rollouts, prompts, a_gpu) in cases.items():
        assert " ".join(arguments) in page_of("paper-trl")
        monkeypatch.setattr(TrainingArguments, "world_size", property(lambda _, ranks=ranks: ranks))
        config, _ = parsed("paper-trl", *arguments)
        assert config.generation_batch_size == rollouts == prompts * config.num_generations
        assert config.generation_batch_size == (
            ranks * config.per_device_train_batch_size * config.gradient_accumulation_steps
        ), "one generation for one update: strictly on-policy"
        assert config.steps_per_generation * config.per_device_train_batch_size == a_gpu
    with pytest.raises(ValueError, match="must be divisible by num_generations"):
        parsed("paper-trl", "--gradient_accumulation_steps", "85", "--per_device_train_batch_size", "1")


QWEN3 = {"vocab_size": 151_936, "num_key_value_heads": 8, "head_dim": 128}
MODELS = {
    "paper-trl": QWEN3 | {"hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36,
                          "num_attention_heads": 32, "tie_word_embeddings": False},
    "one-gpu": QWEN3 | {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
                        "num_attention_heads": 16, "tie_word_embeddings": True},
}  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_pages_arithmetic(recipe):
    """Every `expression = result` of the page is evaluated, and weights and cache are those of the architecture."""
    page, shape = page_of(recipe), MODELS[recipe]
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config(**shape))
    weights = sum(weight.numel() for weight in set(model.parameters()))
    assert f"{weights / 1e9:.2f}e9 weights" in page
    a_token = 2 * shape["num_hidden_layers"] * shape["num_key_value_heads"] * shape["head_dim"] * 2
    assert f"{a_token:,} bytes a token" in page

    spans = re.sub(r"```.*?```", "", page, flags=re.DOTALL).split("`")[1::2]
    sums = [span.split(" = ") for span in spans if re.search(" = [0-9]", span)]
    assert len(sums) >= 15
    for expression, result in sums:
        assert re.fullmatch(r"[0-9e. x*/()+-]+", expression)
        value = eval(expression.replace("x", "*"))  # noqa: S307  # digits and operators alone
        digits = len(result.partition("e")[0].replace(".", "").lstrip("0"))
        assert float(f"{value:.{digits}g}") == float(result), f"{expression} = {value}"


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_doctor_finds_nothing(recipe):
    for name in ("train.py", "config.yaml"):
        result = CliRunner().invoke(cli, ["doctor", str(ROOT / recipe / name), "--strict"])
        assert result.exit_code == 0, result.output
        assert result.output == "Nothing is wrong.\n"


@pytest.mark.parametrize("recipe", RECIPES)
def test_bad_input_is_one_line(recipe, tiny_model, pairs, tmp_path, monkeypatch):
    broken, careless = tmp_path / "broken.jsonl", tmp_path / "careless.yaml"
    broken.write_text('{"problem": "1+1"}\n')
    careless.write_text(yaml.safe_dump({n: v for n, v in settings_of(recipe).items() if n != "min_correct"}))
    script, config = ROOT / recipe / "train.py", ROOT / recipe / "config.yaml"
    same = ["--model_name_or_path", tiny_model, "--output_dir", tmp_path / "out", *flags(ON_CPU)]
    for settings, arguments, message in (
        (config, [], "--pairs: expected the pairs file that `corpo-rl pairs build` wrote, found none"),
        (config, ["--pairs", tmp_path / "none.jsonl"], f"{tmp_path}/none.jsonl: .+"),
        (config, ["--pairs", broken], f"{broken}:1: .+"),
        (config, ["--pairs", pairs, "--max_prompt_length", "3"], "train: no pair is left; raise --max_prompt_length.+"),
        (careless, ["--pairs", pairs], "min_correct: expected the least reward that counts as correct.+"),
        (config, ["--pairs", pairs, "--min_correct", "nan"], "min_correct: expected the least reward.+ got nan.+"),
        (config, ["--pairs", pairs, "--scale_rewards", "group"], "scale_rewards: corpo divides by nothing.+"),
    ):
        monkeypatch.setattr(sys, "argv", [str(part) for part in (script, "--config", settings, *arguments, *same)])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(script), run_name="__main__")
        assert re.fullmatch(f"error: {message}", stopped.value.code), stopped.value.code
