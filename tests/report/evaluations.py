"""Evaluations for the tests of their reports: scripted verifiers of several kinds, and hostile names and texts."""

from dataclasses import replace
from functools import cache

import numpy as np

from corpo_rl.assessment.answers import Answer
from corpo_rl.assessment.document import assess
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.verifier import Scores

from .audits import HOSTILE

SETTINGS = {"pairs": "pairs/", "task": "pairs", "limit": None, "seed": 0, "max_new_tokens": 512, "top_p": 1.0}
FAILURES = ("no_scores", "malformed", "text_after_scores")


def make_items(n=60, *, text="What is {number} + {number}?"):
    kinds = [(1, 0), (0, 1), (1, 1), (0, 0)]
    items = []
    for number in range(n):
        label_a, label_b = kinds[number % 4]
        split = "ood" if label_a == label_b else "in_domain" if number % 3 else "other_domain"
        items.append(
            VerifierItem(
                str(number),
                text.format(number=number),
                f"It is {2 * number + 1 - label_a}.",
                f"So we get {2 * number + 2 * (1 - label_b)}.",
                label_a,
                label_b,
                "gsm8k" if split == "other_domain" else "code",
                split,
            )
        )
    return items


def answers_of(items, *, skill, bias=0.0, mute=0.0, seed=0, n_samples=1, both_orders=True):
    rng = np.random.default_rng(seed)
    answers = []
    for item in items:
        for swapped in (False, True)[: 1 + both_orders]:
            for number in range(n_samples):
                if rng.random() < mute:
                    failure = FAILURES[rng.choice(3, p=[0.7, 0.2, 0.1])]
                    answers.append(Answer(item, swapped, number, "I think <b>A</b> is fine", "length", None, failure))
                    continue
                first = 1 if swapped else 0
                drawn = [
                    int(np.clip(np.round(rng.normal(5 + skill * (2 * label - 1) + bias * (place == first), 2)), 0, 10))
                    for place, label in enumerate((item.label_a, item.label_b))
                ]
                scores = Scores(*drawn)
                shown = (scores.b, scores.a) if swapped else (scores.a, scores.b)
                text = f"One of them forgot a term.\nA: {shown[0]}\nB: {shown[1]}"
                answers.append(Answer(item, swapped, number, text, "stop", scores, None))
    return answers


def document_of(models, *, ks=(1,), **settings):
    several = {"n_samples": 1, "both_orders": True, "temperature": 0.0, **settings}
    return assess(models, ks=ks, n_resamples=200, settings={**SETTINGS, **several}, command="corpo-rl evaluate x y")


@cache
def make_evaluation(n_models=2):
    items = make_items()
    skills = {
        "runs/before/model": {"skill": 0.6, "bias": 1.0, "mute": 0.2},
        "runs/after/model": {"skill": 2.5, "bias": 0.2},
        "HuggingFaceTB/SmolLM2-135M-Instruct": {"skill": 0.0, "mute": 0.9},
        "mute": {"skill": 0.0, "mute": 1.0},
    }
    chosen = list(skills.items())[:n_models]
    return document_of({name: answers_of(items, seed=place, **how) for place, (name, how) in enumerate(chosen)})


@cache
def make_single():
    """One model, one split, one order, four samples."""
    items = [item for item in make_items() if item.split == "in_domain"]
    answers = answers_of(items, skill=1.0, n_samples=4, both_orders=False)
    return document_of(
        {"judge": answers}, ks=(1, 4), n_samples=4, both_orders=False, temperature=1.0, pairs="pairs.jsonl"
    )


@cache
def make_hostile():
    items = [
        replace(
            item,
            problem=HOSTILE[number % len(HOSTILE)] + str(number),
            answer_a=HOSTILE[(number + 1) % len(HOSTILE)],
            domain=HOSTILE[number % 3],
            item_id=HOSTILE[number % len(HOSTILE)] + str(number),
        )
        for number, item in enumerate(make_items(12))
    ]
    models = {}
    for place, name in enumerate(HOSTILE[:3]):
        answers = answers_of(items, skill=1.0, mute=0.4, seed=place)
        models[name] = [
            replace(one, text=HOSTILE[row % len(HOSTILE)], failure=one.failure and HOSTILE[row % 4])
            for row, one in enumerate(answers)
        ]
    return document_of(models, pairs=HOSTILE[0])


EVALUATIONS = {
    "two": make_evaluation(),
    "four": make_evaluation(4),
    "single": make_single(),
    "hostile": make_hostile(),
}
