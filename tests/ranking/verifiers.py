"""Scripted verifiers: streams whose scores are a known function of the two answers."""

import re

from corpo_rl.records import Sample, SamplingSettings

GREEDY = SamplingSettings(max_new_tokens=16, temperature=0.0)

_PROMPT = re.compile(r"Problem: (.*)\n\nAnswer A:\n(.*)\n\nAnswer B:\n(.*)\n\nScore each answer", re.DOTALL)


def asked(request):
    """Problem, answer A and answer B of a request, read back out of its prompt."""
    return _PROMPT.match(request.prompt).groups()


class Verifier:
    """A stream that remembers what it was asked. `judge(a, b)` gives two scores, or the text of the completion."""

    def __init__(self, judge, finish_reason="stop"):
        self.judge = judge
        self.finish_reason = finish_reason
        self.batches = []

    def __call__(self, requests, sampling):
        assert len({request.key for request in requests}) == len(requests), "keys must be unique"
        self.batches.append(list(requests))
        for request in reversed(requests):  # any order will do
            _, a, b = asked(request)
            said = self.judge(a, b)
            text = said if isinstance(said, str) else f"A: {said[0]}\nB: {said[1]}"
            yield Sample(request.key, text, self.finish_reason)

    @property
    def n_calls(self):
        return sum(map(len, self.batches))

    @property
    def pairs_asked(self):
        return [asked(request)[1:] for batch in self.batches for request in batch]


def by_quality(quality):
    """Each answer gets its own quality, whatever it stands beside."""
    return Verifier(lambda a, b: (quality(a), quality(b)))
