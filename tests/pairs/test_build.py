from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.build import build_pairs
from corpo_rl.pairs.files import normalised, read_pairs, write_pairs
from corpo_rl.pairs.rated import RatedAnswer, RatedProblem, answer_form
from corpo_rl.pairs.splits import PairSizes

SOURCES = ("weak", "middling", "strong")


def build(problems, *, train=None, in_domain=0, ood=0, other_domain=0, other_domain_name="other", seed=0, **settings):
    return build_pairs(
        problems,
        domain="made",
        sizes=PairSizes(train=train, in_domain=in_domain, ood=ood, other_domain=other_domain),
        rng=np.random.default_rng(seed),
        other_domain=other_domain_name,
        **{"similarity": 1, "pairs_per_problem": 4, **settings},
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
    # the only pair of sources; x is right on two problems and y on one: one pair of twins, and one pair without a twin
    problems = [
        rated(1, ("x", "a", True), ("y", "b", False)),
        rated(2, ("x", "c", True), ("y", "d", False)),
        rated(3, ("x", "e", False), ("y", "f", True)),
    ]
    built = build(problems)
    one, other = built.items
    assert (one.source_a, one.source_b) == (other.source_a, other.source_b)
    assert {one.label_a, other.label_a} == {0, 1}
    assert "Problem 3?" in {one.problem, other.problem}
    assert {item.split for item in built.items} == {"train"}
    assert [item.domain for item in built.items] == ["made", "made"]


def test_worked_by_hand_within_one_problem():
    # one source, one problem: 30 characters right, 20 wrong (longer right by 10), 40 wrong (longer wrong by 10), and
    # 90 wrong (by 60), for which there is no fourth pair. Twins: the two pairs that differ by 10.
    right, short, long, longest = "r" * 30, "s" * 20, "l" * 40, "o" * 90
    problem = rated(1, ("x", right, True), ("x", short, False), ("x", long, False), ("x", longest, False))
    one, other = build([problem]).items
    assert {one.answer_a, one.answer_b, other.answer_a, other.answer_b} == {right, short, long}
    # the longer answer has the same place in both, and is the right one in one of them
    assert (len(one.answer_a) > len(one.answer_b)) == (len(other.answer_a) > len(other.answer_b))
    assert one.label_a != other.label_a


def test_worked_by_hand_out_of_domain():
    # problems 1 to 3 have three right and three wrong answers, one of them is for ood: a twin from two pairs of a label
    problems = [
        rated(
            number, *(("x", f"{'right' if label else 'wrong'} {n}", label) for label in (True, False) for n in range(3))
        )
        for number in range(3)
    ]
    items = build(problems, ood=2).split("ood")
    assert sorted((item.label_a, item.label_b) for item in items) == [(0, 0), (1, 1)]
    assert items[0].problem == items[1].problem, "or the problem would tell the labels"


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


def test_the_order_of_two_answers_is_drawn():
    items = build(lopsided_problems(200)).items
    assert len({(item.source_a, item.source_b) for item in items}) == 6
    one_source = [
        rated(number, *(("x", "." * size + str(place), place % 2 == 0) for place, size in enumerate((9, 4, 3, 8))))
        for number in range(40)
    ]
    n_longer = sum(len(item.answer_a) > len(item.answer_b) for item in build(one_source).items)
    assert 0.3 < n_longer / len(build(one_source).items) < 0.7


def test_sizes_are_kept_and_validation_goes_round_its_problems():
    built = build(lopsided_problems(400), train=31, in_domain=40, ood=21)
    assert [len(built.split(split)) for split in ("train", "in_domain", "ood", "other_domain")] == [31, 40, 21, 0]
    for split in ("in_domain", "ood"):
        pairs_of = Counter(item.problem for item in built.split(split))
        assert max(pairs_of.values()) <= 2
    assert [part.why for part in built.parts.values()] == ["", "", "", ""]


def test_a_split_that_falls_short_says_why():
    built = build(lopsided_problems(60), train=10_000, in_domain=5, ood=4, other_domain=7)
    part = built.parts["train"]
    assert (part.asked, part.got) == (10_000, len(built.split("train")))
    assert f"the {part.n_allotted} problems for it give no more pairs of a right and a wrong answer" in part.why
    assert built.parts["other_domain"].why == "no answers of another domain were given"


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


def test_answers_that_are_the_same_never_meet():
    problems = [
        rated(1, ("x", "same", True), ("y", "same ", True), ("x", "w 1", False), ("y", "w 2", False)),
        rated(2, ("x", "as here", True), ("y", "as  here", False)),  # one of the labels must be mistaken
        rated(3, ("x", "a", True), ("y", "b", False)),
        rated(3, ("x", "a", True), ("y", "b", False)),  # once more
        rated(4, ("x", "c", False), ("y", "d", True)),
    ]
    built = build(problems, ood=2)
    (domain,) = built.domains
    assert (domain.left_out.contradictory, domain.left_out.copies) == (2, 2)
    assert domain.n_problems == 4
    for item in built.items:
        assert answer_form(item.answer_a, is_code=False) != answer_form(item.answer_b, is_code=False)
    assert "Problem 2?" not in {item.problem for item in built.items}


def test_comments_and_layout_of_code_do_not_make_another_answer():
    answers = (
        ("    return x+1", True),
        ("    return x + 1  # next", True),
        ("    return x", False),
        ("    return 0", False),
    )
    problem = RatedProblem("1", "Next?", tuple(RatedAnswer(text, correct=label, source="m") for text, label in answers))
    assert build([replace(problem, is_code=True), *lopsided_problems(9)]).domains[0].left_out.copies == 1
    assert build([problem, *lopsided_problems(9)]).domains[0].left_out.copies == 0


def test_long_pairs_are_left_out():
    problems = [
        rated(2, ("x", "a" * 50, True), ("y", "b" * 50, False)),  # 10 + 50 + 50 characters
        rated(3, ("x", "a", True), ("y", "b", False)),
        rated(4, ("x", "c" * 50, False), ("y", "d" * 50, True)),
        rated(5, ("x", "e", False), ("y", "f", True)),
    ]
    assert len(build(problems, max_chars=110).items) == 4
    assert {item.problem for item in build(problems, max_chars=109).items} == {"Problem 3?", "Problem 5?"}


def test_problems_that_are_nearly_the_same_share_a_split():
    rng = np.random.default_rng(0)
    words = ["hen", "egg", "train", "apple", "tall", "river", "stone", "walks", "sells", "seven", "ten", "market"]
    texts = [" ".join(rng.choice(words, size=12)) for _ in range(40)]
    problems = [
        replace(problem, problem=text + suffix)
        for number, text in enumerate(texts)
        for suffix, problem in zip((" now", " then"), lopsided_problems(80)[2 * number :], strict=False)
    ]
    built = build(problems, in_domain=8, ood=8, similarity=0.5)
    split_of = {}
    for item in built.items:
        assert split_of.setdefault(item.problem.rsplit(" ", 1)[0], item.split) == item.split
    assert len(built.clusters) >= 30
    assert all(cluster.similarity >= 0.5 for cluster in built.clusters)
    apart = build(problems, in_domain=8, ood=8, similarity=1)
    stems = [{item.problem.rsplit(" ", 1)[0] for item in apart.split(split)} for split in ("train", "in_domain", "ood")]
    assert sum(map(len, stems)) > len(set().union(*stems)), "the material must leak when nothing keeps it together"


def test_problems_that_differ_in_spelling_only_share_a_split():
    problems = [
        RatedProblem(str(number), text, problem.answers)
        for number, (text, problem) in enumerate(
            zip(["How many?", "how  MANY", "HOW many"], lopsided_problems(40), strict=False)
        )
    ]
    built = build(problems + lopsided_problems(40)[10:], in_domain=6, ood=6)
    assert len({item.split for item in built.items if normalised(item.problem) == "how many"}) <= 1
    assert [len(cluster.problem_ids) for cluster in built.clusters] == [3]


def test_an_answer_is_in_so_many_pairs_at_most():
    # one right answer and twelve wrong ones, six shorter and six longer
    problem = rated(1, ("x", "r" * 50, True), *(("x", f"{n:02}" * (15 if n < 6 else 35), False) for n in range(12)))
    assert len(build([problem], pairs_per_problem=None).items) == 10
    assert len(build([problem], pairs_per_problem=None, uses_per_answer=4).items) == 4
    assert len(build([problem], pairs_per_problem=None, uses_per_answer=None).items) == 12


def test_another_domain_is_drawn_without_what_is_in_the_first():
    main, other = lopsided_problems(60), [replace(one, problem=one.problem + " Sums.") for one in lopsided_problems(60)]
    built = build(main, in_domain=4, ood=4, other_domain=9, other=[*other, main[0]], other_domain_name="sums")
    items = built.split("other_domain")
    assert len(items) == 9
    assert {item.domain for item in items} == {"sums"}
    assert {item.problem for item in items}.isdisjoint(problem.problem for problem in main)
    assert built.n_overlapping == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": -1}, "train: expected at least 0, found -1"),
        ({"ood": -2}, "ood: expected at least 0, found -2"),
        ({"pairs_per_problem": 0}, "pairs per problem: expected at least 1, found 0"),
        ({"max_chars": 0}, "max chars: expected at least 1, found 0"),
        ({"uses_per_answer": 0}, "uses per answer: expected at least 1, found 0"),
        ({"held_out": 1.0}, "held-out share: expected a number from 0 up to but not 1, found 1.0"),
        ({"similarity": 0.1}, "similarity of near duplicates: expected a number from 0.3 to 1, found 0.1"),
    ],
)
def test_bad_sizes(changes, message):
    with pytest.raises(UsageError, match=message):
        build(lopsided_problems(10), **changes)


@pytest.mark.parametrize(
    ("problems", "settings", "message"),
    [
        (
            [rated(n, ("x", f"a{n}", True), ("y", f"b{n}", False)) for n in range(30)],  # x is always right
            {},
            "no pair is left to train on: of 30 problems .* 30 are for training, and none of their pairs has a twin",
        ),
        (
            [rated(1, ("x", "a", True)), rated(2, ("x", "b", False), ("y", "c", False)), rated(3)],
            {},
            r"no pair can be made: of 3 problems none .* \(1 have right ones only, 1 wrong ones only, 1 none\)",
        ),
        ([], {}, "no pair can be made: of 0 problems"),
        (lopsided_problems(20), {"max_chars": 10}, "none with a pair of at most 10 characters; allow longer ones"),
    ],
)
def test_no_pair_can_be_made(problems, settings, message):
    with pytest.raises(DataError, match=message):
        build(problems, **settings)


@st.composite
def problems_strategy(draw):
    """Problems of which some are alike, with several answers of a source, copies and contradictions among them."""
    problems = []
    for number in range(draw(st.integers(2, 20))):
        question = draw(st.sampled_from(["q one", "Q  one!", "q two", "q3"])) if draw(st.booleans()) else f"q {number}"
        answers = draw(
            st.lists(
                st.builds(
                    lambda text, size, correct, source: RatedAnswer(text * size, correct=correct, source=source),
                    st.sampled_from("abc"),
                    st.integers(1, 4),
                    st.booleans(),
                    st.sampled_from("st"),
                ),
                max_size=9,
            )
        )
        problems.append(RatedProblem(str(number), question, tuple(answers), is_code=draw(st.booleans())))
    return problems


SIZES = st.integers(0, 9)


@settings(max_examples=200, deadline=None)
@given(
    problems_strategy(), problems_strategy(), SIZES, SIZES, SIZES, st.none() | st.integers(1, 30), st.integers(1, 5),
    st.integers(1, 4), st.sampled_from([0.3, 0.5, 1]), st.sampled_from([0.0, 0.3, 0.8]),
)  # fmt: skip
def test_properties(
    tmp_path_factory,
    problems,
    other,
    in_domain,
    ood,
    other_domain,
    train,
    per_problem,
    per_answer,
    similarity,
    held_out,
):
    sizes = {"train": train, "in_domain": in_domain, "ood": ood, "other_domain": other_domain}
    try:
        built = build(
            problems,
            **sizes,
            other=other,
            other_domain_name="other",
            pairs_per_problem=per_problem,
            uses_per_answer=per_answer,
            similarity=similarity,
            held_out=held_out,
        )
    except DataError:
        return  # nothing left to train on
    splits = {split: built.split(split) for split in sizes}
    assert sum(len(items) for items in splits.values()) == len(built.items)
    for split, items in splits.items():
        assert sizes[split] is None or len(items) <= sizes[split]
        assert built.parts[split].got == len(items)
        assert bool(built.parts[split].why) == (sizes[split] is not None and len(items) < sizes[split])

    # no problem crosses splits, and none that is nearly the same: every two texts compared by a plain loop
    texts = sorted({(item.problem, item.split) for item in built.items})
    for (one, split), (another, other_split) in combinations(texts, 2):
        if split != other_split:
            assert normalised(one) != normalised(another)
            assert plain_similarity(one, another) < similarity

    # labels, sources and texts are those of the answers
    given_answers = {
        (problem.problem, answer.source, answer.text, int(answer.correct))
        for problem in (*problems, *other)
        for answer in problem.answers
    }
    is_code = {problem.problem: problem.is_code for problem in reversed((*problems, *other))}
    met = set()
    for item in built.items:
        assert (item.problem, item.source_a, item.answer_a, item.label_a) in given_answers
        assert (item.problem, item.source_b, item.answer_b, item.label_b) in given_answers
        forms = [answer_form(text, is_code=is_code[item.problem]) for text in (item.answer_a, item.answer_b)]
        assert forms[0] != forms[1]
        pair = (item.problem, frozenset(forms))
        assert pair not in met
        met.add(pair)

    for split, items in splits.items():
        pairs_of = Counter(item.problem for item in items)
        assert max(pairs_of.values(), default=0) <= per_problem
        uses = Counter((item.problem, text) for item in items for text in (item.answer_a, item.answer_b))
        assert max(uses.values(), default=0) <= per_answer

        # order, class, source and length are balanced in the first n pairs, up to the one pair of an odd n
        assert all((item.label_a == item.label_b) == (split == "ood") for item in items)
        balance = Counter()
        for n, item in enumerate(items, start=1):
            sign = 2 * item.label_a - 1
            balance["A"] += sign
            if item.source_a != item.source_b:
                balance[item.source_a] += sign
                balance[item.source_b] += 2 * item.label_b - 1
            if split != "ood":
                longer = len(item.answer_a) - len(item.answer_b)
                balance["longer"] += sign * ((longer > 0) - (longer < 0))
            assert all(abs(value) <= n % 2 for value in balance.values())

    # what the strict reader asks of a file, this builder keeps
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    write_pairs(path, built.items)
    assert len(read_pairs(path)) == len(built.items)


def plain_similarity(one, another):
    """Jaccard similarity of the runs of five characters, written out."""
    sets = []
    for text in (one, another):
        words = normalised(text)
        sets.append({words[start : start + 5] for start in range(len(words)) if start == 0 or start + 5 <= len(words)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])
