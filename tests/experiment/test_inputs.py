import gzip
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import DataError, UsageError
from corpo_rl.experiment.inputs import (
    check_spec,
    fitting_items,
    load_task,
    on_device,
    task_from_spec,
    with_own_files,
)
from corpo_rl.experiment.runner import prepare
from corpo_rl.experiment.settings import MINI
from corpo_rl.records import FunctionTests, Problem
from corpo_rl.tasks.code import CodeTask
from corpo_rl.tasks.mini import MiniTask
from corpo_rl.tasks.verifier import REWARDS, Scores

TASK = """
class Copy:
    name = "copy"
    min_correct = 1.0
    unparsable_reward = -1.0
    def items(self, split):
        return ["a", "b" * 40] if split in ("train", "ood") else []
    def prompt(self, item):
        return item
    def parse(self, completion):
        return completion
    def reward(self, item, answer):
        return float(item == answer)
    def measures(self, item, answer):
        return {}

class Half:
    name = "half"
"""


class Letters:
    """A policy as far as prompts go: a token per character."""

    def render(self, prompt):
        return prompt

    def tokenizer(self, prompts):
        return {"input_ids": [list(prompt) for prompt in prompts]}


@pytest.fixture
def task_file(tmp_path):
    path = tmp_path / "my_task.py"
    path.write_text(TASK)
    return path


def test_a_task_of_the_users_own(task_file, tmp_path):
    task = load_task(replace(MINI, task=f"{task_file}:Copy"), tmp_path)
    assert (task.name, task.min_correct) == ("copy", 1.0)
    assert load_task(replace(MINI, task=f"{task_file}:Copy", min_correct=0.5), tmp_path).min_correct == 0.5


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{file}:Half", "is not a Task, it lacks min_correct, unparsable_reward, items"),
        ("{file}:None", "has no class"),
        ("nonsense", "expected mini, pairs, rubric, code, puzzles:NAME.* or FILE.py:NAME"),
        ("/no/such.py:X", "expected a Python file with a Task class, found no file /no/such.py"),
    ],
)
def test_what_is_no_task_is_told(task_file, tmp_path, spec, message):
    with pytest.raises(UsageError, match=message):
        load_task(replace(MINI, task=spec.format(file=task_file)), tmp_path)


PAIR = {"problem": "1+1", "answer_a": "2", "answer_b": "3", "label_a": 1, "label_b": 0, "domain": "sums"}
CODE = {"text": "Write double(x).", "tests": {"entry_point": "double", "source": "assert double(2) == 4"}}


@pytest.fixture
def files(tmp_path):
    """A file for each task that takes one."""
    rows = {
        "pairs": [
            {**PAIR, "item_id": "1", "split": "train"},
            {**PAIR, "item_id": "2", "problem": "2+2", "split": "in_domain"},
        ],
        "code": [{**CODE, "problem_id": "1", "split": "train"}, {**CODE, "problem_id": "2", "split": "in_domain"}],
    }
    for name in rows:
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[name]))
    return {name: tmp_path / f"{name}.jsonl" for name in rows}


@pytest.mark.parametrize("name", ["pairs", "code"])
def test_tasks_of_a_file(files, name):
    task = task_from_spec(name, data=files[name])
    assert task.name == name
    assert len(task.items("train")) == 1


def test_puzzles_by_their_names():
    pytest.importorskip("reasoning_gym", reason="makes puzzles: needs corpo-rl[puzzles]")
    task = task_from_spec("puzzles:word_sorting, rectangle_count", data=None)
    assert {item.puzzle for item in task.items("other_domain")[:5]} == {"rectangle_count"}


@pytest.mark.parametrize("spec", ["puzzles", "puzzles:", "puzzles: ,"])
def test_puzzles_without_a_name_are_told(spec):
    with pytest.raises(UsageError, match=r"--task: expected puzzles:NAME\[,NAME...\], got no name"):
        task_from_spec(spec, data=None)


def test_a_reward_brings_its_own_threshold(files):
    for task in ("mini", "pairs"):
        data = files.get(task)
        assert task_from_spec(task, data=data).min_correct == 0.2
        assert task_from_spec(task, data=data, reward="min_margin").min_correct == 0.2
        brier = task_from_spec(task, data=data, reward="brier")
        assert brier.min_correct == REWARDS["brier"].min_correct != 0.2
        item = brier.items("train")[0]
        assert brier.reward(item, Scores(5, 5)) == 0.5, "min_margin gives the hedge 0"


@pytest.mark.parametrize(
    ("spec", "data", "reward", "message"),
    [
        (
            "pairs",
            None,
            None,
            "--pairs: expected the path of a pairs file for the task pairs .make one with: corpo-rl pairs",
        ),
        ("rubric", None, None, "--data: expected the path of a file of rubric items for the task rubric"),
        ("code", None, None, "--data: expected the path of a file of problems with tests for the task code"),
        ("mini", "x.jsonl", None, "--data: the task 'mini' takes no file, found x.jsonl; leave it out"),
        ("my.py:Task", "x.jsonl", None, "--data: the task 'my.py:Task' takes no file"),
        ("mini", None, "best", "--reward: expected one of min_margin, brier, got 'best'"),
        ("code", "x.jsonl", "brier", "--reward: the task 'code' has a reward of its own, got 'brier'; leave it out"),
    ],
)
def test_a_file_or_reward_missing_or_not_wanted_is_told(spec, data, reward, message):
    for refuse in (check_spec, task_from_spec):
        with pytest.raises(UsageError, match=message):
            refuse(spec, data=None if data is None else Path(data), reward=reward)


def test_an_experiment_has_its_own_copy_of_the_file_and_knows_its_content(files, tmp_path):
    settings = replace(MINI, task="code", data=str(files["code"]))
    out = tmp_path / "out"
    stored = prepare(out, settings)
    assert stored.data.startswith("sha256:")
    assert stored.pairs is None
    files["code"].rename(tmp_path / "moved.jsonl")
    assert [item.problem_id for item in load_task(stored, out).items("train")] == ["1"]
    assert prepare(out, replace(settings, data=str(tmp_path / "moved.jsonl"))) == stored
    (tmp_path / "moved.jsonl").write_text((tmp_path / "moved.jsonl").read_text().replace("double", "twice"))
    with pytest.raises(UsageError, match=r"holds another experiment .data is 'sha256:"):
        prepare(out, replace(settings, data=str(tmp_path / "moved.jsonl")))
    with pytest.raises(DataError, match="expected a readable data file, found No such file"):
        prepare(tmp_path / "other", settings)


@pytest.mark.parametrize("ending", [".jsonl.gz", ".json", ".parquet"])
def test_a_copy_is_read_as_its_source_was(files, tmp_path, ending):
    rows = [json.loads(line) for line in files["code"].read_text().splitlines()]
    path = tmp_path / f"my.data{ending}"
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        text = json.dumps(rows) if ending == ".json" else files["code"].read_text()
        path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    stored = prepare(tmp_path / "out", replace(MINI, task="code", data=str(path)))
    path.unlink()
    assert [item.problem_id for item in load_task(stored, tmp_path / "out").items("in_domain")] == ["2"]


def test_another_experiment_can_be_made_from_the_kept_files(files, tmp_path):
    assert with_own_files(MINI, tmp_path) == MINI
    for name in ("pairs", "code"):
        out = tmp_path / name
        settings = replace(MINI, task=name, **{"pairs" if name == "pairs" else "data": str(files[name])})
        stored = prepare(out, settings)
        files[name].unlink()
        assert prepare(tmp_path / f"{name}-again", with_own_files(stored, out)) == stored


def test_a_broken_or_missing_copy_is_told(files, tmp_path):
    stored = prepare(tmp_path / "out", replace(MINI, task="code", data=str(files["code"])))
    (tmp_path / "out" / "data.jsonl").unlink()
    with pytest.raises(DataError, match=r"out/data: .*No such file"):
        load_task(stored, tmp_path / "out")


def test_a_broken_file_is_told_before_anything_is_made(tmp_path):
    (tmp_path / "p.jsonl").write_text(json.dumps({**CODE, "problem_id": "1", "tests": {}}) + "\n")
    with pytest.raises(DataError, match=r"p.jsonl:1: a problem without tests"):
        prepare(tmp_path / "out", replace(MINI, task="code", data=str(tmp_path / "p.jsonl")))
    assert not (tmp_path / "out").exists()


def test_problems_that_cannot_be_judged_are_told_with_their_number(files):
    rows = [json.dumps({**CODE, "problem_id": name, "tests": {}}) + "\n" for name in ("3", "4")]
    files["code"].write_text(files["code"].read_text() + "".join(rows))
    with pytest.raises(
        DataError, match=r"code.jsonl:3: a problem without tests.* \(2 of 4 problems cannot be judged; l"
    ):
        task_from_spec("code", data=files["code"])


def test_a_warm_up_that_the_task_cannot_teach_is_told_before_anything_is_made(files, tmp_path):
    with pytest.raises(UsageError, match=r"--warmup-steps: the task code shows no example .*add --warmup-steps 0"):
        prepare(tmp_path / "out", replace(MINI, task="code", data=str(files["code"]), warmup_steps=3))
    assert not (tmp_path / "out").exists()


def test_long_items_are_left_out_and_counted(task_file, tmp_path):
    task = load_task(replace(MINI, task=f"{task_file}:Copy"), tmp_path)
    items = fitting_items(task, Letters(), replace(MINI, max_prompt_tokens=10))
    assert items.by_split["train"] == ["a"]
    assert items.by_split["in_domain"] == []
    assert items.left_out == {"train": 1, "in_domain": 0, "ood": 1, "other_domain": 0}
    both = fitting_items(task, Letters(), replace(MINI, max_prompt_tokens=100, eval_items=1))
    assert both.by_split["train"] == ["a", "b" * 40]
    assert both.by_split["ood"] == ["a"], "eval_items cuts evaluation splits, never training"


def test_nothing_that_fits_is_refused(tmp_path):
    path = tmp_path / "my_task.py"
    path.write_text(TASK.replace('"a", ', ""))
    task = load_task(replace(MINI, task=f"{path}:Copy"), tmp_path)
    with pytest.raises(
        DataError, match=r"within 10 prompt tokens; 2 of 2 were too long \(prompts, of 40 to 40 tokens; --max"
    ):
        fitting_items(task, Letters(), replace(MINI, max_prompt_tokens=10))


class Digits(Letters):
    """A policy that knows digits alone, as token 0 what it does not know; its template may write that token out."""

    def __init__(self, template="{}"):
        self.template = template

    name = "digits"

    def render(self, prompt):
        return self.template.format(prompt)

    @property
    def tokenizer(self):
        return DigitTokens()


class DigitTokens:
    unk_token, unk_token_id = "<unk>", 0

    def __call__(self, texts):
        return {"input_ids": [[int(char) if char in "123456789" else 0 for char in text] for text in texts]}


def task_of(*prompts):
    """A task of texts, the first of which is for training."""

    class Texts(MiniTask):
        name = "texts"

        def items(self, split):
            return prompts[:1] if split == "train" else prompts[1:] if split == "ood" else ()

        def prompt(self, item):
            return item

    return Texts()


def test_a_policy_that_would_read_gaps_is_refused():
    settings = replace(MINI, max_prompt_tokens=50)
    assert fitting_items(task_of("12", "34"), Digits(), settings).by_split["ood"] == ["34"]
    with pytest.raises(UsageError, match=r"--policy: digits cannot read 1 of 2 prompts of the task texts, .*smollm2"):
        fitting_items(task_of("12", "34", "3a4"), Digits(), settings)
    written_out = Digits("{}<unk>")
    assert fitting_items(task_of("12", "34"), written_out, settings).by_split["train"] == ["12"]


def test_the_embedded_policy_reads_its_own_task_and_no_code(files):
    pytest.importorskip("torch", reason="loads a model: needs corpo-rl[train]")
    from corpo_rl.policies.local import load_policy

    mini = load_policy("mini")
    assert len(fitting_items(MiniTask(), mini, MINI).by_split["train"]) == 4890
    with pytest.raises(UsageError, match="--policy: mini cannot read 1 of 1 prompts of the task code"):
        fitting_items(task_from_spec("code", data=files["code"]), mini, MINI)


def test_a_limit_that_cuts_every_solution_short_is_refused():
    begun = "def f():\n"
    tests = FunctionTests("f", "assert f() == 1")
    problems = [
        Problem("1", begun, tests, prompt=begun, reference=begun + "  return 1", split="train"),
        Problem("2", "f", tests, reference="def f(): return 1 # it is", split="train"),
        Problem("3", "f", tests, split="ood"),
    ]
    task = CodeTask(problems, judge=lambda answers: [])
    settings = replace(MINI, max_prompt_tokens=500, max_new_tokens=10)
    assert len(fitting_items(task, Letters(), settings).by_split["train"]) == 2, "the body alone has 10 letters"
    with pytest.raises(UsageError, match=r"--max-new-tokens: 9 are too few for any of the 2 .* shortest has 10 tokens"):
        fitting_items(task, Letters(), replace(settings, max_new_tokens=9))


class Moved:
    """A policy that notes where its model was moved."""

    def __init__(self):
        self.model, self.places = self, []

    def to(self, place):
        self.places.append(place)


@pytest.mark.parametrize(("device", "places"), [(None, []), ("cuda", ["cuda"])])
def test_a_policy_goes_where_the_settings_say(device, places, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    policy = Moved()
    assert on_device(policy, replace(MINI, device=device)) is policy
    assert policy.places == places


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UsageError, match="--device: expected a CUDA device that torch can use, found none"):
        on_device(Moved(), replace(MINI, device="cuda"))
