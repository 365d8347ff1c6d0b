import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import DataError
from corpo_rl.pairs.files import normalised
from corpo_rl.pairs.rubric_files import read_rubric
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.rubric import RubricTask

ROW = {"instruction": "Name a prime.", "response": "Nine.", "rubric": "Is it right?", "score": 1, "split": "train"}
HELD_OUT = {**ROW, "instruction": "Name a fruit.", "response": "A pear.", "score": [5, 4, 4], "split": "in_domain"}

DESCRIPTIONS = {f"score{grade}_description": f"It is {word}." for grade, word in enumerate("ABCDE", start=1)}
RUBRIC = "Is it good?\n1: It is A.\n2: It is B.\n3: It is C.\n4: It is D.\n5: It is E."


def feedback_row(number, score="3"):
    """A row as the Feedback Collection has it; every value of that set is text."""
    return {
        "instruction": "###Task Description: ...",
        "output": "Too short. So the overall score is 3. [RESULT] 3",
        "orig_instruction": f"Explain the number {number}.",
        "orig_response": "It is a number.",
        "orig_reference_answer": f"{number} is the one after {number - 1}.",
        "orig_criteria": "Is it good?",
        **{f"orig_{name}": text for name, text in DESCRIPTIONS.items()},
        "orig_score": score,
        "orig_feedback": "Too short.",
    }


def biggen_row(number, **fields):
    """A row as the results of the BiGGen Bench have it."""
    return {
        "id": f"planning_{number}",
        "capability": "planning",
        "system_prompt": "You plan trips.",
        "input": f"Plan trip {number}.",
        "reference_answer": "",
        "score_rubric": {"criteria": "Is it good?", **DESCRIPTIONS},
        "response": "Go by train.",
        "model_name": "m",
        "human_score": 4,
        "gpt4_score": 2,
        **fields,
    }


def write(tmp_path, rows, name="texts.jsonl"):
    path = tmp_path / name
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_own_form(tmp_path):
    prime, fruit = read_rubric(write(tmp_path, [ROW, {**HELD_OUT, "reference_answer": "A fig.", "item_id": "fig"}]))
    assert (prime.item_id, prime.instruction, prime.response) == ("line 1", "Name a prime.", "Nine.")
    assert (prime.rubric, prime.score, prime.split, prime.reference_answer) == ("Is it right?", 1, "train", "")
    assert (fruit.item_id, fruit.split, fruit.reference_answer) == ("fig", "in_domain", "A fig.")
    assert fruit.score == 13 / 3
    assert grade(RubricTask([fruit]), fruit, "Score: 4").correct


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.json", "texts.parquet"])
def test_every_container_gives_the_same(tmp_path, name):
    items = read_rubric(write(tmp_path, [ROW, {**HELD_OUT, "score": 5}], name))
    assert [(item.response, item.score, item.split) for item in items] == [
        ("Nine.", 1, "train"),
        ("A pear.", 5, "in_domain"),
    ]
    assert items[1].item_id == ("line 2" if name.endswith("jsonl") else "row 1")


def test_feedback_collection(tmp_path):
    items = read_rubric(write(tmp_path, [feedback_row(number, str(number % 5 + 1)) for number in range(40)]))
    assert [item.score for item in items[:6]] == [1, 2, 3, 4, 5, 1]
    assert (items[7].instruction, items[7].response) == ("Explain the number 7.", "It is a number.")
    assert (items[7].rubric, items[7].reference_answer) == (RUBRIC, "7 is the one after 6.")


def test_results_of_the_biggen_bench_count_people_only(tmp_path):
    rows = [{**biggen_row(number), "split": "ood" if number else "train"} for number in range(2)]
    rows.append({**biggen_row(2, system_prompt=None, human_score=5), "split": "train"})
    items = read_rubric(write(tmp_path, rows, "results.parquet"))
    assert [item.score for item in items] == [4, 4, 5]
    assert items[0].instruction == "You plan trips.\n\nPlan trip 0."
    assert items[2].instruction == "Plan trip 2."
    assert (items[0].rubric, items[0].reference_answer) == (RUBRIC, "")


def test_split_by_hash_goes_by_instruction_alone(tmp_path):
    rows = [{"instruction": f"Name {n // 3}", "response": f"{n}", "rubric": "?", "score": 2} for n in range(900)]
    items = read_rubric(write(tmp_path, rows))
    shuffled = read_rubric(write(tmp_path, [*rows[450:], *rows[:400]], "other.jsonl"))
    split_of = {item.instruction: item.split for item in items}
    assert all(split_of[item.instruction] == item.split for item in [*items, *shuffled])
    assert {item.split for item in items} == {"train", "in_domain"}
    n_held_out = sum(split == "in_domain" for split in split_of.values())
    assert 30 <= n_held_out <= 90, "one in five of 300, give or take four standard errors of 6.9"
    # a rewording that differs by case and points only is the same instruction
    assert normalised("NAME 7!") == normalised("Name 7")
    reworded = [{**row, "instruction": row["instruction"].upper() + "!", "response": "x"} for row in rows[::3]]
    items = read_rubric(write(tmp_path, [*rows, *reworded]))
    assert [item.split for item in items[900:]] == [item.split for item in items[:900:3]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"texts.jsonl: expected graded texts, found no row; is this the right file\?"),
        ([{"a": 1}], r"texts.jsonl:1: no field 'instruction' \(fields: a\)"),
        ([ROW, {**HELD_OUT, "response": " "}], r"texts.jsonl:2: response: expected text, found \" \""),
        ([{**ROW, "rubric": {"criteria": "?"}}], r"texts.jsonl:1: rubric: no field 'score1_description'"),
        ([{**ROW, "rubric": ["?"]}], r"texts.jsonl:1: rubric: expected text, found \[\"\?\"\]"),
        ([{**ROW, "score": 6}], r"texts.jsonl:1: score: expected a number from 1 to 5 or a list of such .* found 6$"),
        ([{**ROW, "score": 0.9}], r"texts.jsonl:1: score: expected a number from 1 to 5 .* found 0.9$"),
        ([{**ROW, "score": float("nan")}], r"texts.jsonl:1: score: expected a number from 1 to 5 .* found NaN$"),
        ([{**ROW, "score": True}], r"texts.jsonl:1: score: .* found true$"),
        ([{**ROW, "score": None}], r"texts.jsonl:1: score: .* found null$"),
        ([{**ROW, "score": []}], r"texts.jsonl:1: score: .* found \[\]$"),
        ([{**ROW, "score": [4, None]}], r"texts.jsonl:1: score: .* found \[4, null\]$"),
        ([{**ROW, "score": "4"}], r"texts.jsonl:1: score: .* found \"4\"$"),
        ([{k: v for k, v in ROW.items() if k != "score"}], r"texts.jsonl:1: no field 'score' \(fields: instruction, "),
        ([feedback_row(1, "6")], r"texts.jsonl:1: orig_score: expected a number from 1 to 5 .* found \"6\"$"),
        ([biggen_row(1, human_score=None)], r"texts.jsonl:1: human_score: .* found null$"),
        ([{**ROW, "split": "test"}], r"texts.jsonl:1: split: expected one of train, in_domain, .* found \"test\"$"),
        (
            [ROW, {k: v for k, v in HELD_OUT.items() if k != "split"}],
            r"texts.jsonl:2: no field 'split', unlike line 1; give all rows one or none",
        ),
        (
            [{**ROW, "item_id": "x"}, HELD_OUT, {**ROW, "item_id": "x", "response": "2"}],
            r"texts.jsonl:3: item_id 'x' is already used in line 1; make ids unique",
        ),
        (
            [ROW, HELD_OUT, {**ROW, "score": 2}],
            r"texts.jsonl:3: same instruction, response and rubric as line 1; keep one, with a list of both grades",
        ),
        (
            [ROW, {**ROW, "response": "2", "instruction": "name a PRIME", "split": "ood"}],
            r"texts.jsonl:2: this instruction is in split 'ood' and, in line 1, in split 'train'; keep all texts",
        ),
        ([ROW], r"texts.jsonl: expected texts in train and in one of in_domain, .* found 1 in train and 0 elsewhere$"),
        ([feedback_row(1)], r"elsewhere; the instructions are too few to split by a hash: give more, or a field 'sp"),
    ],
)
def test_errors_name_the_place(tmp_path, rows, message):
    with pytest.raises(DataError, match=message) as raised:
        read_rubric(write(tmp_path, rows))
    assert "\n" not in str(raised.value)


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(DataError, match="could not be read"):
        read_rubric(tmp_path / "none.jsonl")
    (tmp_path / "broken.jsonl").write_text('{"instruction": ')
    with pytest.raises(DataError, match=r"broken.jsonl:1: expected a JSON object, found broken JSON"):
        read_rubric(tmp_path / "broken.jsonl")
