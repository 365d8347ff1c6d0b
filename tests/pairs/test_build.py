from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.build import PairSizes, RatedAnswer, RatedProblem, build_pairs
from corpo_rl.pairs.files import normalised, read_pairs, write_pairs

SOURCES = ("weak", "middling", "strong")


def build(problems, *, train=None, in_domain=0, ood=0, pairs_per_problem=4, max_chars=None, seed=0):
    return build_pairs(
        problems,
        domain="made",
        sizes=PairSizes(train=train, in_domain=in_domain, ood=ood),
        pairs_per_problem=pairs_per_problem,
        max_chars=max_chars,
        rng=np.random.default_rng(seed),
    )


def rated(number, *answers):
    return RatedProblem(
        str(number),
        f"Problem {number}?",
        tuple(RatedAnswer(text, correct=correct, source=source) for source, text, correct in answers),
    )


def lopsided_problems(n, *, seed=0):
    """Right far more often from a strong source than from a weak one, as published answers are."""
    rng = np.random.default_rng(seed)
    skill = {"weak": 0.2, "middling": 0.45, "strong": 0.7}
    return [
        rated(number, *((source, f"{source} on {number}", bool(rng.random() < skill[source])) for source in SOURCES))
        for number in range(n)
    ]


def test_worked_by_hand():
    # the only pair of sources; two problems where x is right and one where y is: one twin draw, and no second one
    problems = [
        rated(1, ("x", "a", True), ("y", "b", False)),
        rated(2, ("x", "c", True), ("y", "d", False)),
        rated(3, ("x", "e", False), ("y", "f", True)),
    ]
    built = build(problems)
    assert built.n_usable == 3
    one, other = built.items
    assert (one.source_a, one.source_b) == (other.source_a, other.source_b)
    assert {one.label_a, other.label_a} == {0, 1}
    assert "Problem 3?" in {one.problem, other.problem}
    assert {item.split for item in built.items} == {"train"}
    assert [item.domain for item in built.items] == ["made", "made"]


def test_position_and_source_say_nothing_about_the_labels():
    problems = lopsided_problems(400)
    naive = Counter((answer.source, answer.correct) for problem in problems for answer in problem.answers)
    assert naive["strong", True] > 2 * naive["weak", True], "the material must be lopsided for this test to mean much"
    built = build(problems, in_domain=40, ood=20)
    for split in ("train", "in_domain"):
        votes = Counter((item.source_a, item.source_b, item.label_a) for item in built.split(split))
        assert len(votes) >= 6
        for source_a, source_b, label in votes:
            assert votes[source_a, source_b, label] == votes[source_a, source_b, 1 - label]


def test_sizes_are_kept_and_validation_takes_one_pair_a_problem():
    built = build(lopsided_problems(400), train=31, in_domain=40, ood=21)
    assert [len(built.split(split)) for split in ("train", "in_domain", "ood", "other_domain")] == [31, 40, 21, 0]
    for split in ("in_domain", "ood"):
        problems = [item.problem for item in built.split(split)]
        assert len(set(problems)) == len(problems)


def test_pairs_per_problem_caps_training():
    problems = lopsided_problems(200)
    most = Counter(item.problem for item in build(problems, pairs_per_problem=4).items)
    assert max(most.values()) > 1, "the material must allow two pairs a problem"
    capped = Counter(item.problem for item in build(problems, pairs_per_problem=1).items)
    assert max(capped.values()) == 1


def test_same_seed_same_pairs():
    problems = lopsided_problems(100)
    assert build(problems, in_domain=10, seed=3) == build(problems, in_domain=10, seed=3)
    assert build(problems, in_domain=10, seed=3) != build(problems, in_domain=10, seed=4)


def test_identical_repeated_and_long_pairs_are_dropped_and_counted():
    problems = [
        rated(1, ("x", "same", True), ("y", "same ", True)),  # identical but for a space
        rated(2, ("x", "a" * 50, True), ("y", "b" * 50, False)),  # 10 + 50 + 50 characters
        rated(3, ("x", "a", True), ("y", "b", False)),
        rated(3, ("x", "a", True), ("y", "b", False)),  # once more
        rated(4, ("x", "c", False), ("y", "d", True)),
    ]
    built = build(problems, max_chars=109)
    assert (built.n_identical, built.n_repeated, built.n_too_long, built.n_usable) == (1, 1, 1, 2)
    assert build(problems, max_chars=110).n_too_long == 0
    assert {item.problem for item in built.items} == {"Problem 3?", "Problem 4?"}


def test_problems_that_differ_in_spelling_only_share_a_split():
    answers = [("x", "a", True), ("y", "b", False)], [("x", "c", False), ("y", "d", True)]
    problems = [RatedProblem("1", "How many?", rated(1, *answers[0]).answers)]
    problems += [RatedProblem("2", "how  MANY", rated(2, *answers[1]).answers)]
    # as one problem they make no twins for a validation split, which takes one pair a problem
    built = build(problems, in_domain=2)
    assert {item.split for item in built.items} == {"train"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": -1}, "train: expected at least 0, found -1"),
        ({"ood": -2}, "ood: expected at least 0, found -2"),
        ({"pairs_per_problem": 0}, "pairs_per_problem: expected at least 1, found 0"),
        ({"max_chars": 0}, "max_chars: expected at least 1, found 0"),
    ],
)
def test_bad_sizes(changes, message):
    with pytest.raises(UsageError, match=message):
        build(lopsided_problems(10), **changes)


def test_nothing_left_to_train_on():
    with pytest.raises(DataError, match=r"no pair is left to train on: \d+ pairs .* \d+ of them in in_domain; ask for"):
        build(lopsided_problems(30), in_domain=1000)


@st.composite
def problems_strategy(draw):
    problems = []
    for number in range(draw(st.integers(4, 25))):
        question = draw(st.sampled_from(["q one", "Q  one!", "q two", "q3"])) if draw(st.booleans()) else f"q {number}"
        sources = draw(st.lists(st.sampled_from("stuv"), min_size=2, max_size=4, unique=True))
        answers = tuple(
            RatedAnswer(draw(st.sampled_from(["1", "2", "3", "4", "5"])), draw(st.booleans()), source)
            for source in sources
        )
        problems.append(RatedProblem(str(number), question, answers))
    return problems


@settings(max_examples=150, deadline=None)
@given(problems_strategy(), st.integers(0, 6), st.integers(0, 6), st.none() | st.integers(1, 9), st.integers(1, 3))
def test_properties(tmp_path_factory, problems, in_domain, ood, train, per_problem):
    try:
        built = build(problems, train=train, in_domain=in_domain, ood=ood, pairs_per_problem=per_problem)
    except DataError:
        return  # nothing left to train on
    splits = {split: built.split(split) for split in ("train", "in_domain", "ood")}
    assert sum(len(items) for items in splits.values()) == len(built.items)

    # no problem crosses splits, however it is spelt
    keys = [{normalised(item.problem) for item in items} for items in splits.values()]
    assert sum(len(one) for one in keys) == len(set().union(*keys))

    # labels, sources and texts are those of the answers
    given_answers = {
        (problem.problem, answer.source, answer.text, int(answer.correct))
        for problem in problems
        for answer in problem.answers
    }
    for item in built.items:
        assert (item.problem, item.source_a, item.answer_a, item.label_a) in given_answers
        assert (item.problem, item.source_b, item.answer_b, item.label_b) in given_answers
        assert item.answer_a != item.answer_b
        assert item.source_a != item.source_b

    # order, class and source are balanced in the first n pairs, up to the one pair of an odd n
    for split, items in splits.items():
        assert all((item.label_a == item.label_b) == (split == "ood") for item in items)
        balance = Counter()
        for n, item in enumerate(items, start=1):
            balance["A"] += 2 * item.label_a - 1
            balance[item.source_a] += 2 * item.label_a - 1
            balance[item.source_b] += 2 * item.label_b - 1
            assert all(abs(value) <= n % 2 for value in balance.values())

    assert len(splits["in_domain"]) <= in_domain
    assert len(splits["ood"]) <= ood
    assert train is None or len(splits["train"]) <= train
    uses = Counter(normalised(item.problem) for item in splits["train"])
    assert max(uses.values()) <= per_problem

    # what the strict reader asks of a file, this builder keeps
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    write_pairs(path, built.items)
    assert len(read_pairs(path)) == len(built.items)
