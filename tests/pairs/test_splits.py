import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpo_rl.errors import UsageError
from corpo_rl.pairs.splits import ClusterKinds, PairSizes, allot_clusters


def allot(*, both=0, mixed=0, one_sided=0, sizes, held_out=0.3, seed=0):
    kinds = ClusterKinds(
        both=range(both),
        mixed=range(both, both + mixed),
        one_sided=range(both + mixed, both + mixed + one_sided),
    )
    return allot_clusters(kinds, sizes=PairSizes(**sizes), held_out=held_out, rng=np.random.default_rng(seed))


def counts(allotted):
    return {split: len(clusters) for split, clusters in allotted.items()}


def test_worked_by_hand_when_there_are_enough():
    # validation wants 2 * 10 and 8; three tenths of 100 are 30
    found = allot(both=100, one_sided=5, sizes={"train": 1000, "in_domain": 10, "ood": 8})
    assert counts(found) == {"train": 72, "in_domain": 20, "ood": 8 + 5}


def test_worked_by_hand_when_there_are_not():
    # three tenths of 40 are 12, divided as sqrt(64) : sqrt(16) = 8 : 4
    found = allot(both=40, sizes={"train": 1000, "in_domain": 64, "ood": 16})
    assert counts(found) == {"train": 28, "in_domain": 8, "ood": 4}


def test_ood_gets_clusters_that_give_both_its_kinds():
    found = allot(both=6, mixed=94, sizes={"train": 1000, "in_domain": 10, "ood": 4})
    assert set(found["ood"]) <= set(range(6))


def test_train_gets_no_more_than_it_wants():
    found = allot(both=100, sizes={"train": 5, "in_domain": 100, "ood": 100})
    assert counts(found)["train"] == 5
    assert sum(counts(found).values()) == 100


def test_what_nobody_wants_is_left():
    found = allot(both=100, sizes={"train": 5, "in_domain": 3, "ood": 2})
    assert counts(found) == {"train": 5, "in_domain": 6, "ood": 2}


def test_a_handful_goes_to_train_first_then_to_each_validation():
    sizes = {"train": 100, "in_domain": 100, "ood": 100}
    assert counts(allot(both=1, sizes=sizes)) == {"train": 1, "in_domain": 0, "ood": 0}
    assert counts(allot(both=3, sizes=sizes)) == {"train": 1, "in_domain": 1, "ood": 1}
    assert counts(allot(sizes=sizes)) == {"train": 0, "in_domain": 0, "ood": 0}


def test_without_ood_nothing_is_kept_for_it():
    assert allot(both=9, one_sided=9, sizes={"train": None, "in_domain": 2, "ood": 0})["ood"] == ()


SIZE = st.integers(0, 60)


@given(SIZE, SIZE, SIZE, st.none() | SIZE, SIZE, SIZE, st.floats(0, 0.95))
def test_properties(both, mixed, one_sided, train, in_domain, ood, held_out):
    found = allot(
        both=both,
        mixed=mixed,
        one_sided=one_sided,
        sizes={"train": train, "in_domain": in_domain, "ood": ood},
        held_out=held_out,
    )
    everything = [cluster for clusters in found.values() for cluster in clusters]
    assert len(set(everything)) == len(everything)
    usable = [cluster for cluster in everything if cluster < both + mixed]
    n_validation = sum(cluster < both + mixed for cluster in (*found["in_domain"], *found["ood"]))
    assert len(found["in_domain"]) <= 2 * in_domain
    assert set(found["train"]).isdisjoint(range(both + mixed, both + mixed + one_sided))
    if train is None or train > both + mixed:
        assert n_validation <= max(held_out * (both + mixed), (in_domain > 0) + (ood > 0))
        assert len(usable) == both + mixed, "nothing is wasted while train has a use for it"
        assert not both + mixed or found["train"]


@pytest.mark.parametrize("held_out", [-0.1, 1.0])
def test_out_of_range(held_out):
    with pytest.raises(UsageError, match="held-out share: expected a number from 0 up to but not 1"):
        allot(both=3, sizes={"train": 1, "in_domain": 1, "ood": 1}, held_out=held_out)
