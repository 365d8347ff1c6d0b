import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from corpo_rl.errors import MissingExtraError, UsageError
from corpo_rl.pairs.files import normalised
from corpo_rl.pairs.near_duplicates import cluster_problems
from corpo_rl.pairs.problems import read_problems

DATA = Path(__file__).parents[3] / "shared" / "data"
WORDS = ["hen", "egg", "train", "apple", "tall", "river", "stone", "walks", "sells", "seven", "ten", "market", "pays"]


def plain_similarity(one, another):
    sets = []
    for text in (one, another):
        words = normalised(text)
        sets.append({words[start : start + 5] for start in range(len(words)) if start == 0 or start + 5 <= len(words)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def plain_clusters(texts, similarity):
    """Every two compared, and what is linked painted in one colour until nothing changes."""
    colour = list(range(len(texts)))
    for _ in texts:
        for one, other in combinations(range(len(texts)), 2):
            if plain_similarity(texts[one], texts[other]) >= similarity:
                colour[one] = colour[other] = min(colour[one], colour[other])
    return tuple(colour)


def test_worked_by_hand():
    # runs of five of "abcdefgh": abcde bcdef cdefg defgh; of "abcdefgx": the first three and defgx. 3 of 5 shared.
    found = cluster_problems(["abcdefgh", "Abcdefgx!", "entirely different"], similarity=0.6)
    assert found.cluster_of == (0, 0, 2)
    (link,) = found.links
    assert (link.first, link.second, link.similarity) == (0, 1, pytest.approx(3 / 5))
    assert cluster_problems(["abcdefgh", "Abcdefgx!"], similarity=0.61).cluster_of == (0, 1)


def test_a_chain_is_one_cluster():
    texts = ["abcdefgh", "abcdefgx", "wxabcdefgx"]
    assert plain_similarity(texts[0], texts[2]) < 0.5 <= plain_similarity(texts[1], texts[2])
    assert cluster_problems(texts).cluster_of == (0, 0, 0)


@pytest.mark.parametrize("similarity", [0.3, 0.5, 0.8])
def test_every_two_texts_compared_by_a_plain_loop(similarity):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 12))) for _ in range(24)]
    for text in texts[:16]:
        changed = text.split()
        changed[rng.integers(len(changed))] = str(rng.choice(WORDS))
        texts.append(" ".join(changed))
    expected = plain_clusters(texts, similarity)
    assert 5 < len(set(expected)) < 40, "the material must hold both kinds"
    assert cluster_problems(texts, similarity=similarity).cluster_of == expected


def test_nothing_and_texts_without_words():
    assert cluster_problems([]).cluster_of == ()
    assert cluster_problems(["?", "!", "?"]).cluster_of == (0, 1, 0)


def test_out_of_range():
    with pytest.raises(UsageError, match=r"similarity of near duplicates: expected a number from 0.3 to 1, found 1.1"):
        cluster_problems(["a"], similarity=1.1)


def test_without_the_library_only_the_same_words_can_be_found(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketch", None)
    assert cluster_problems(["Same words", "same WORDS", "others"], similarity=1).cluster_of == (0, 0, 2)
    with pytest.raises(MissingExtraError, match=r"near-duplicate problems needs .* pip install 'corpo-rl\[pairs\]'"):
        cluster_problems(["a", "b"])


@pytest.mark.skipif(not DATA.is_dir(), reason="the published problems are not beside this checkout")
@pytest.mark.parametrize(
    ("file", "n_links", "example"),
    [
        ("humaneval/HumanEval.jsonl.gz", 5, ("HumanEval/40", "HumanEval/43")),  # triples and pairs that sum to zero
        ("gsm8k/example_model_solutions.jsonl", 3, ("419", "559")),  # whose locker is how big
    ],
)
def test_published_problems(file, n_links, example):
    problems = read_problems(DATA / file)
    found = cluster_problems([problem.text for problem in problems])
    assert len(found.links) == n_links
    assert example in {(problems[link.first].problem_id, problems[link.second].problem_id) for link in found.links}
