import pytest

from corpo_rl.curation.matching import canonical, match_rows
from corpo_rl.curation.prompts import PromptNames
from corpo_rl.errors import DataError


def by_text(*texts):
    return PromptNames(None, [None] * len(texts), list(texts))


def by_id(*ids, texts=None):
    return PromptNames("uid", list(ids), [None] * len(ids) if texts is None else texts)


def user(text, *before):
    return [*before, {"role": "user", "content": text}]


def system(text):
    return {"role": "system", "content": text}


def found(names, values):
    return match_rows(names, values, column="c").prompt_of_row


def test_ids_are_equal_when_they_are_written_alike():
    assert found(by_id(7, "8", 9), ["9", 8, "7", 7, None, 10]) == [2, 1, 0, 0, None, None]
    match = match_rows(by_id(7, 8), [8], column="extra_info.index")
    assert match.how == "uid of the log is extra_info.index of the data set"
    assert match.n_prompts_unmatched == 1


def test_where_no_value_is_an_id_prompts_are_looked_at():
    names = by_id("u1", "u2", texts=["1+1?", "2+2?"])
    match = match_rows(names, ["2+2?", "1+1?"], column="prompt")
    assert match.prompt_of_row == [1, 0]
    assert match.how == "the prompt of the log is prompt of the data set"


def test_every_row_with_the_same_prompt_is_that_prompt():
    assert found(by_text("a", "b"), ["b", "a", "b", "c"]) == [1, 0, 1, None]


def test_messages_are_equal_by_role_and_content():
    names = by_text(user("Hi"), user("Hi", system("Be brief.")))
    rows = [
        [{"role": "user", "content": "Hi", "name": None, "tool_calls": None}],
        user("Hi", system("Be brief.")),
        user("Hi", system("Be long.")),
        [{"content": "Hi", "role": "assistant"}],
        "Hi",
    ]
    assert found(names, rows) == [0, 1, None, None, None]


def test_parts_of_messages_may_have_fields_that_parquet_filled_with_nulls():
    parts = [{"type": "text", "text": "Hi"}, {"type": "image"}]
    filled = [{"type": "text", "text": "Hi", "image": None}, {"type": "image", "text": None, "image": None}]
    assert canonical(user(parts)) == canonical(user(filled))
    assert canonical(user(parts)) != canonical(user(parts[:1]))


def test_a_chat_template_is_taken_off():
    names = by_text(*(f"<|system|>Help.<|user|>{text}<|assistant|>" for text in ("1+1?", "12+1?", "2+2?")))
    rows = [user(f" {text}\n", system("Help.")) for text in ("2+2?", "2+1?", "12+1?", "1+1?")]
    match = match_rows(names, rows, column="prompt")
    assert match.prompt_of_row == [2, None, 1, 0]
    assert match.how.endswith("with the chat template taken off")


def test_several_templates_are_taken_off_each_by_itself():
    texts = [f"<s>{who}</s>{text}<a>" for who in ("A", "B") for text in (f"{who} one", f"{who} two")]
    rows = [user(text, system(who)) for who in ("A", "B") for text in (f"{who} one", f"{who} two")]
    assert found(by_text(*texts), rows) == [0, 1, 2, 3]


def test_what_one_prompt_alone_would_wrap_is_no_match():
    """The row "2?" stands inside "14+2?" by chance; its prompt is not in the data set."""
    names = by_text("<u>14+2?<a>", "<u>1+1?<a>", "<u>3+3?<a>")
    assert found(names, [user("2?"), user("1+1?"), user("3+3?")]) == [None, 1, 2]


def test_a_message_ends_where_a_word_ends():
    """Two prompts share the beginning "<u>1" before rows of the data set, but it cuts a number."""
    names = by_text("<u>12+1?<a>", "<u>11+1?<a>", "<u>5+5?<a>", "<u>6+6?<a>")
    assert found(names, [user(text) for text in ("2+1?", "1+1?", "5+5?", "6+6?")]) == [None, None, 2, 3]


def test_the_longest_message_inside_a_prompt_is_it():
    names = by_text("<u>so +1? what<a>", "<u>so +2? what<a>")
    rows = [user(text) for text in ("+1?", "+2?", "so +1? what", "so +2? what")]
    assert found(names, rows) == [None, None, 0, 1]


def test_a_message_of_two_conversations_tells_neither():
    names = by_text("<s>A</s>go on<a>", "<s>A</s>stop<a>", "<s>A</s>wait<a>")
    rows = [
        user("go on", system("A")),
        user("go on", system("B")),
        user("stop", system("A")),
        user("wait", system("A")),
    ]
    assert found(names, rows) == [None, None, 1, 2]


def test_no_match_at_all_is_refused_with_what_was_compared():
    with pytest.raises(
        DataError, match=r"prompt: no row of the data set is a prompt of the log \(data set: 'x'; log: 'a'"
    ):
        match_rows(by_text("a"), ["x"], column="prompt")
    with pytest.raises(DataError, match=r"data set: nothing; log: 7\).*--prompt-column \(log\) and --dataset-column"):
        match_rows(by_id(7), [None], column="uid")
