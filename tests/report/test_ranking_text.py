import json

import pytest

from corpo_rl.ranking.best_of_n import best_of_n_document
from corpo_rl.ranking.rank import rank
from corpo_rl.ranking.result import RankingSettings, ranking_document
from corpo_rl.report.form import json_text
from corpo_rl.report.ranking_text import best_of_n_text, rank_text
from corpo_rl.report.text import WIDTH, columns_of
from tests.ranking.test_best_of_n import group, mixed_groups, perfect, tried
from tests.ranking.verifiers import GREEDY, Verifier, by_quality


def document_of(answers, verifier, names=None, **options):
    ranking = rank("Why?", answers, verifier, sampling=GREEDY, settings=RankingSettings(**options))
    document = ranking_document(ranking, names or [f"{number}.txt" for number in range(len(answers))])
    return json.loads(json_text(document, "ranking", nan_as_null=True))  # as it comes back from a file


def rows_of(text):
    """Words of each row of the first table."""
    lines = text.splitlines()
    return [line.split() for line in lines[2 : lines.index("")]]


def notes_of(text):
    """The text behind the tables, as one line."""
    return " ".join(text.split("Best:")[-1].split())


def test_ranking_by_hand():
    quality = {"blue\nsky": 8, "red": 6, "grey": 6, "mud": 0}
    text = rank_text(document_of([*quality, "red"], by_quality(quality.get)))
    # two answers share rank 2, so that the next is 4; the repeated text is one answer
    assert sorted(rows_of(text)) == sorted(
        [
            ["1", "1", "8.00", "3", "3/0/0", "0.txt", "blue"],
            *(
                [
                    [row, "2=", "6.00", "3", "1/1/1", *named]
                    for row, named in zip("23", _second_and_third(text), strict=True)
                ]
            ),
            ["4", "4", "0.00", "3", "0/0/3", "3.txt", "mud"],
        ]
    )
    table = text.split("(column):\n")[1].split("\n\n")[0].splitlines()
    assert table[0].split() == ["no.", "1", "2", "3", "4"]
    assert table[1].split() == ["1", ".", "8.00", "8.00", "8.00"]
    assert table[4].split() == ["4", "0.00", "0.00", "0.00", "."]
    assert notes_of(text) == (
        "0.txt. - Round-robin, both orders, one sample each: 12 completions. Ranked by mean score (0 to 10)."
    )


def _second_and_third(text):
    named = [row[5:] for row in rows_of(text)[1:3]]
    assert sorted(named) == [["1.txt", "(+1)", "red"], ["2.txt", "grey"]]
    return named


def test_ties_are_said():
    text = rank_text(document_of([f"{number}" for number in range(9)] + ["0"], by_quality(lambda answer: 5)))
    assert {row[1] for row in rows_of(text)} == {"1="}
    best = " ".join(text.split("Best: ")[1].split(" - ")[0].split())
    assert best.startswith("a tie of 9. By lot (seed 0) ")
    assert "and 4 more." in best
    first = rows_of(text)[0][5]
    assert f"By lot (seed 0) {first}" in best


def test_a_knockout_says_what_it_is_and_what_the_lot_decided():
    text = rank_text(document_of(list("abcdefgh"), by_quality(lambda answer: 5), method="knockout", n_samples=2))
    assert [row[1] for row in rows_of(text)] == ["1", "2", "3=", "3=", *["5="] * 4]
    notes = notes_of(text)
    assert "Knockout, both orders, 2 samples each: 28 completions. Ranked by round reached." in notes
    assert "Answers out in the same round share a rank" in notes
    assert "Of 7 pairs 7 named no winner" in notes
    assert " . " in text.split("(column):")[1], "pairs that never met are dots"


def test_what_did_not_parse_is_said():
    def judge(a, b):
        return "hm" if "mute" in (a, b) or (a, b) == ("x", "y") else (len(a), len(b))

    text = rank_text(document_of(["x", "y", "mute"], Verifier(judge, finish_reason="length")))
    assert rows_of(text)[2] == ["3", "-", "n/a", "0/2", "0/0/0", "2.txt", "mute"]
    notes = notes_of(text)
    assert "Of 6 completions 5 did not parse, and are in no score (no_scores 5)." in notes
    assert "6 completions cut at the length limit" in notes
    assert "1 answer (rank -) could not be ranked" in notes
    assert "Of 3 pairs 1 got scores in one order only" in notes


def test_nothing_parsed_has_no_best():
    text = rank_text(document_of(["x", "y"], Verifier(lambda a, b: "hm")))
    assert "No answer could be ranked: none of 2 completions holds two scores" in " ".join(text.split())
    assert "Best" not in text
    assert "(column)" not in text


def test_many_answers_are_cut_and_have_no_score_table():
    names = [f"{number}.txt" for number in range(200)]
    text = rank_text(document_of(names, by_quality(lambda answer: int(answer[0])), names, method="knockout"))
    assert len(rows_of(text)) == 51
    assert "and 150 more" in text
    assert "(column)" not in text


@pytest.mark.parametrize("name", ["a\x1b[2J\nb.txt", "x" * 300, "漢字" * 40, "\udce9.txt"])
def test_hostile_names_and_texts_stay_in_their_columns(name):
    answers = ["\x1b[31mred\x07" + "ü" * 200, "漢字" * 90, "\n\n   \tindented", name]
    text = rank_text(document_of(answers, by_quality(lambda answer: len(answer) % 10), [name] * 4))
    assert all(columns_of(line) <= WIDTH for line in text.splitlines())
    assert all(char.isprintable() or char == "\n" for char in text)
    text.encode()


def figures_of(text):
    """Words behind the label of each row."""
    rows = text.split("interval\n")[1].split("\n\n")[0].splitlines()
    return {row[:28].strip(): row[28:].split() for row in rows}


def test_best_of_n_by_hand():
    groups = [group("a", True, False), group("b", False, False), group("c", True, True), group("d", True, False)]
    found = tried(groups, by_quality(perfect), n=2, votes=lambda texts: [None] * len(texts))
    text = best_of_n_text(json.loads(json_text(best_of_n_document(found), "best", nan_as_null=True)))
    assert text.startswith("Best of 2 answers to each of 4 problems\n")
    rows = figures_of(text)
    assert {label: words[0] for label, words in rows.items()} == {
        "at random (expected)": "0.500",
        "by majority vote": "0.500",
        "by the verifier": "0.750",
        "by the labels (oracle)": "0.750",
        "gain over random": "+0.250",
        "share of the headroom": "100",
    }
    assert rows["by the verifier"] == ["0.750", "[0.250,", "1.000]"]
    assert "n/a" not in text
    assert "In 4 problems no answer votes; the majority is a blind pick there." in " ".join(text.split())


def test_best_of_n_says_what_was_left_out_and_what_did_not_parse():
    groups = [*mixed_groups(5), group("small", True), group("strange", *[None] * 9)]
    found = tried(groups, Verifier(lambda a, b: "hm", finish_reason="length"))
    text = best_of_n_text(json.loads(json_text(best_of_n_document(found), "best", nan_as_null=True)))
    words = " ".join(text.split())
    assert "by majority vote" not in text
    assert "Of 60 completions 60 did not parse, and are in no score (no_scores 60)." in words
    assert "In 5 problems no answer could be ranked; it counts as a blind pick." in words
    assert "Left out: 2 problems with fewer than 4 judged answers, and 9 answers that could not be judged." in words
    assert figures_of(text)["gain over random"][0] == "0.000"
    assert all(columns_of(line) <= WIDTH for line in text.splitlines())


def test_best_of_n_says_its_ties():
    text = best_of_n_text(
        best_of_n_document(tried([group("a", True, False), group("b", True, True)], by_quality(perfect), 2))
    )
    assert "In 1 problem right and wrong answers" not in text
    tie = best_of_n_text(best_of_n_document(tried([group("a", True, False)], by_quality(lambda answer: 5), 2)))
    assert (
        "In 1 problem right and wrong answers share the first rank: each answer there has the same chance."
        in " ".join(tie.split())
    )
    assert figures_of(tie)["by the verifier"] == ["0.500"], "one problem has no interval"
