import copy
import unicodedata

import pytest

from corpo_rl.report.evaluation_text import evaluation_text
from corpo_rl.report.evaluation_view import Row
from corpo_rl.report.text import columns_of

from .evaluations import EVALUATIONS, answers_of, document_of, make_items


@pytest.mark.parametrize("name", EVALUATIONS)
def test_lines_fit_a_terminal_and_move_no_cursor(name):
    text = evaluation_text(EVALUATIONS[name])
    assert text.endswith("\n")
    assert [line for line in text.splitlines() if columns_of(line) > 80] == []
    assert not {char for char in text if unicodedata.category(char)[0] == "C"} - {"\n"}


def test_one_model_says_what_each_figure_is_over():
    text = evaluation_text(EVALUATIONS["single"])
    one = EVALUATIONS["single"]["splits"]["in_domain"]["models"]["judge"]["figures"]
    (line,) = [line for line in text.splitlines() if line.startswith("AUROC")]
    assert f"{one['auroc']['value']:.3f} [{one['auroc']['low']:.3f}, {one['auroc']['high']:.3f}]" in line
    assert line.endswith(f"{one['auroc']['n']} scores of what parsed")
    assert "pass@4" in text
    assert "position bias" not in text, "one order was asked for"
    assert "- mixed pairs" not in text, "there are no others"
    assert "4 completions of each pair in its own order, drawn at temperature 1." in text


def test_models_stand_side_by_side_with_differences_under_them():
    text = evaluation_text(EVALUATIONS["two"])
    assert text.startswith("[1] runs/before/model\n[2] runs/after/model\n")
    whole = EVALUATIONS["two"]["splits"]["all"]["models"]
    before, after = (whole[f"runs/{name}/model"]["figures"]["brier"]["value"] for name in ("before", "after"))
    lines = text.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("Brier"))
    assert [word for word in lines[place].split() if "[" not in word and "]" not in word][1:] == [
        f"{before:.2f}",
        f"{after:.2f}",
    ]
    assert lines[place + 1].split()[:3] == ["minus", "[1]", f"{after - before:+.2f}"]
    assert "[1] 25 of 120 not parsed (no_scores 15, malformed 8, text_after_scores 2)" in text


def test_a_fourth_model_has_a_table_of_its_own():
    lines = evaluation_text(EVALUATIONS["four"]).splitlines()
    heads = [line.split() for line in lines if line.strip().startswith("[") and "pars" not in line and line[0] == " "]
    assert heads[:2] == [["[1]", "model", "[2]", "model", "[3]", "SmolLM2-135M-In~"], ["[4]", "mute"]]
    assert "n/a" in evaluation_text(EVALUATIONS["four"])


def test_percentages_never_hide_their_sign():
    row = Row("hedge_rate", "", "figures")
    assert [row.write(value, signed=True) for value in (-0.3, 0.3, 0.0, float("nan"))] == [
        "-30 %",
        "+30 %",
        "0 %",
        "n/a",
    ]
    assert Row("brier", "", "figures").write(-0.0001, signed=True) == "0.000"


def test_undefined_is_said_and_no_zero():
    items = make_items(8)
    document = document_of({"mute": answers_of(items, skill=0, mute=1.0)})
    text = evaluation_text(copy.deepcopy(document))
    (line,) = [line for line in text.split("in domain")[0].splitlines() if line.startswith("AUROC")]
    assert line.split() == ["AUROC", "n/a", "0", "scores", "of", "what", "parsed"]


def test_names_of_models_cannot_move_the_cursor():
    items = make_items(4)
    answers = answers_of(items, skill=1)
    text = evaluation_text(document_of({"\x1b[2Jone\n": answers, "\u202eother": answers}))
    assert text.startswith("[1] ?[2Jone?\n[2] ?other\n")
    assert "\x1b" not in text
    assert "\u202e" not in text
