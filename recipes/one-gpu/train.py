"""The paper's experiment small: a verifier of two answers, trained with CoRPO and LoRA on one consumer GPU.

    python recipes/one-gpu/train.py --config recipes/one-gpu/config.yaml --pairs pairs.jsonl

Every setting is in config.yaml and may be given on the command line instead.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset
from transformers import AutoTokenizer
from trl import ModelConfig, TrlParser, get_peft_config

from corpo_rl.errors import CorpoError, DataError
from corpo_rl.pairs.files import read_pairs
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.training.trl import CorpoConfig, CorpoTrainer


@dataclass
class Arguments:
    pairs: Path = field(metadata={"help": "Pairs file that `corpo-rl pairs build` wrote."})
    max_prompt_length: int = field(default=2048, metadata={"help": "Pairs with a longer prompt are left out."})
    eval_split: str = field(default="in_domain", metadata={"help": "Split judged every eval_steps; '' for none."})


def examples(task, split, tokenizer, max_prompt_length):
    """A row for each pair of the split whose prompt fits: TRL renders the chat itself."""
    rows, too_long = [], 0
    for number, item in enumerate(task.items(split)):
        messages = [{"role": "user", "content": task.prompt(item)}]
        rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        if len(tokenizer(rendered, add_special_tokens=False)["input_ids"]) > max_prompt_length:
            too_long += 1
        else:
            rows.append({"prompt": messages, "split": split, "number": number})
    print(f"{split}: {len(rows)} pairs, {too_long} left out (prompt over {max_prompt_length} tokens)", file=sys.stderr)
    if not rows:
        raise DataError(f"{split}: no pair is left; raise --max_prompt_length, or check the splits of --pairs")
    return Dataset.from_list(rows)


def answer_of(completion):
    """The text after the reasoning, where the model reasons in <think> tags; a chat ends with its last message."""
    return completion[-1]["content"].rpartition("</think>")[2].strip()


def main():
    arguments, config, model = TrlParser((Arguments, CorpoConfig, ModelConfig)).parse_args_and_config()
    config.model_init_kwargs = {"dtype": model.dtype, "attn_implementation": model.attn_implementation}
    task = PairsTask(read_pairs(arguments.pairs))
    items = {split: task.items(split) for split in ("train", arguments.eval_split)}
    tokenizer = AutoTokenizer.from_pretrained(model.model_name_or_path)
    train = examples(task, "train", tokenizer, arguments.max_prompt_length)
    evaluation = None
    if arguments.eval_split and config.eval_strategy != "no":
        evaluation = examples(task, arguments.eval_split, tokenizer, arguments.max_prompt_length)

    def verifier(completions, split, number, log_metric, **_):
        """Signed margin of the worse of the two scores; -1 where the two lines cannot be read."""
        graded = [
            grade(task, items[part][place], answer_of(completion))
            for completion, part, place in zip(completions, split, number, strict=True)
        ]
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
    trainer.train(resume_from_checkpoint=config.resume_from_checkpoint)
    trainer.save_model(config.output_dir)


if __name__ == "__main__":
    try:
        main()
    except CorpoError as error:
        sys.exit(f"error: {error}")
