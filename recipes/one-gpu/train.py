"""The paper's experiment small: a verifier of two answers, trained with CoRPO and LoRA on one consumer GPU.

    python recipes/one-gpu/train.py --config recipes/one-gpu/config.yaml --pairs pairs/pairs.jsonl

Every setting is in config.yaml and may be given on the command line instead.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset
from transformers import AutoTokenizer
from trl import ModelConfig, TrlParser, get_peft_config

from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.pairs.files import read_pairs
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer


@dataclass
class Arguments:
    pairs: Path | None = field(default=None, metadata={"help": "Pairs file that `corpo-rl pairs build` wrote."})
    max_prompt_length: int = field(default=2048, metadata={"help": "Pairs with a longer prompt are left out."})
    eval_split: str = field(default="in_domain", metadata={"help": "Split judged every eval_steps; '' for none."})


def examples(task, split, tokenizer, *, max_prompt_length, template, speak):
    """A row for each pair of the split whose prompt fits: TRL renders the chat itself, with the same template."""
    rows, too_long = [], 0
    for number, item in enumerate(task.items(split)):
        messages = [{"role": "user", "content": task.prompt(item)}]
        rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **template)
        if len(tokenizer(rendered, add_special_tokens=False)["input_ids"]) > max_prompt_length:
            too_long += 1
        else:
            rows.append({"prompt": messages, "split": split, "number": number})
    if speak:
        print(f"{split}: {len(rows)} pairs, {too_long} left out, over {max_prompt_length} tokens", file=sys.stderr)
    if not rows:
        raise DataError(f"{split}: no pair is left; raise --max_prompt_length, or check the splits of --pairs")
    return Dataset.from_list(rows)


def answer_of(completion):
    """What follows the reasoning, where the model reasons in <think> tags; nothing, where it never came to an end."""
    text = completion[-1]["content"]
    _, ended, answer = text.rpartition("</think>")
    return answer if ended or "<think>" not in text else ""


def checkpoint_to_resume(wanted, folder):
    """`true` means the newest checkpoint that was written to its end, and none before the first; else it is a path."""
    if wanted is None or wanted.lower() != "true":
        return wanted
    # the state is the last thing a checkpoint gets, so a save that a kill cut short has none
    whole = [state.parent for state in Path(folder).glob("checkpoint-*/trainer_state.json")]
    newest = max(whole, key=lambda checkpoint: int(checkpoint.name.removeprefix("checkpoint-")), default=None)
    return None if newest is None else str(newest)


def main():
    arguments, config, model = TrlParser((Arguments, CorpoConfig, ModelConfig)).parse_args_and_config()
    config.model_init_kwargs = {"dtype": model.dtype, "attn_implementation": model.attn_implementation}
    if arguments.pairs is None:
        raise UsageError("--pairs: expected the pairs file that `corpo-rl pairs build` wrote, found none")
    task = PairsTask(read_pairs(arguments.pairs))
    items = {split: task.items(split) for split in ("train", arguments.eval_split)}
    tokenizer = AutoTokenizer.from_pretrained(model.model_name_or_path)
    fitting = {
        "max_prompt_length": arguments.max_prompt_length,
        "template": config.chat_template_kwargs or {},
        "speak": config.process_index == 0,
    }
    train = examples(task, "train", tokenizer, **fitting)
    evaluation = None
    if arguments.eval_split and config.eval_strategy != "no":
        evaluation = examples(task, arguments.eval_split, tokenizer, **fitting)

    def verifier(completions, split, number, log_extra, log_metric, **_):
        """Signed margin of the worse of the two scores; -1 where the two lines cannot be read."""
        asked = [items[part][place] for part, place in zip(split, number, strict=True)]
        graded = [grade(task, item, answer_of(answer)) for item, answer in zip(asked, completions, strict=True)]
        log_extra("pair", [item.item_id for item in asked])
        log_extra("parse_failure", [one.failure for one in graded])
        log_metric("parse_failure_rate", sum(one.failure is not None for one in graded) / len(graded))
        return [one.reward for one in graded]

    trainer = CorpoTrainer(
        model=model.model_name_or_path,
        reward_funcs=verifier,
        args=config,
        train_dataset=train,
        eval_dataset=evaluation,
        processing_class=tokenizer,
        peft_config=get_peft_config(model),
    )
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(config.resume_from_checkpoint, config.output_dir))
    trainer.save_model(config.output_dir)


if __name__ == "__main__":
    try:
        main()
    except CorpoError as error:
        sys.exit(f"error: {error}")
