"""The pictures: whole files in XML, with a line for every method that has runs, and points where the numbers say."""

import math
import re
from xml.etree import ElementTree

import pytest

from corpo_rl.study.claims import verdicts
from corpo_rl.study.pictures import HEIGHT, LEFT, TOP, WIDTH, pictures

from .made_up import results_of, study_of

STUDY = study_of()
FOUND = verdicts(STUDY)
PICTURES = pictures(STUDY, FOUND)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_files_are_whole_and_need_no_other(name):
    root = ElementTree.fromstring(PICTURES[name])  # noqa: S314  # our own text
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title").text == root.get("aria-label")
    assert "nan" not in PICTURES[name].lower()
    assert "http" not in PICTURES[name].replace("http://www.w3.org/2000/svg", "")
    assert "prefers-color-scheme:dark" in PICTURES[name]


def lines(name):
    """Method and points of each curve, in order of drawing."""
    found = re.findall(r'<path class="l\d" d="(M[^"]+)"><title>(\w+)</title>', PICTURES[name])
    return [(method, [tuple(map(float, point.split())) for point in re.split("[ML]", d)[1:]]) for d, method in found]


def test_every_method_has_a_line_in_every_panel():
    assert [method for method, _ in lines("r_count.svg")] == ["grpo", "dr_grpo", "static", "corpo"] * 3
    assert [method for method, _ in lines("reinforced.svg")] == ["grpo", "dr_grpo"] * 3
    assert all(len(points) == 12 for _, points in lines("r_count.svg"))


def test_points_lie_where_the_numbers_say():
    method, points = lines("r_count.svg")[2]
    assert method == "static"
    runs = STUDY.runs("min_margin", "static", 0.2).values()
    ratios = [math.log((run["series"]["up"][3] + 0.5) / (run["series"]["down"][3] + 0.5)) for run in runs]
    low, high = math.log(0.001), math.log(1000)
    assert points[3][0] == pytest.approx(LEFT + WIDTH * 3.5 / 12, abs=0.06)
    expected = TOP + HEIGHT * (1 - (sum(ratios) / len(ratios) - low) / (high - low))
    assert points[3][1] == pytest.approx(expected, abs=0.06)


def test_a_line_breaks_where_nothing_is_known():
    results = results_of()
    for run in results["runs"]:
        if (run["part"], run["method"], run["reward"]) == ("main", "grpo", "brier"):
            run["series"]["failed"]["0.68"][4] = run["series"]["failed_up"]["0.68"][4] = 0
    study = type(STUDY)(results)
    broken = re.findall(r'class="l0" d="(M[^"]+)"><title>', pictures(study, verdicts(study))["reinforced.svg"])[-1]
    assert broken.count("M") == 2
    assert len(re.split("[ML]", broken)) - 1 == 11


def test_differences_have_a_point_for_every_cell():
    hints = re.findall(r"<title>threshold ([-\d.]+): ([+-][\d.]+), ([\w ]+)</title>", PICTURES["differences.svg"])
    keys = {"4a", "4c", "4e", "4g", "5", "6a", "6c", "6e", "6g"}
    expected = [
        (f"{row['threshold']:g}", f"{row['interval']['value']:+.3f}", row["verdict_of_all"])
        for row in FOUND
        if row["key"] in keys
    ]
    assert sorted(hints) == sorted(expected)


def test_a_study_of_one_seed_has_pictures():
    study = study_of(without=lambda run: run.seed not in (0, 100, 101))
    made = pictures(study, verdicts(study))
    for text in made.values():
        ElementTree.fromstring(text)  # noqa: S314
    assert 'class="b' not in made["r_count.svg"].split("</style>")[1]
