"""Logs that others published: audited, or refused with the right reason."""

from pathlib import Path

import pytest

from corpo_rl.errors import DataError
from tests.rollouts.logs import read, sizes

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "data" / "rollouts"

pytestmark = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published logs are not here")


@pytest.mark.parametrize(
    ("name", "form", "expected_sizes"),
    [
        ("atropos/rubiks_process_results_32.jsonl", "atropos", {4: 6}),
        ("nemo_gym/bigcodebench.jsonl", "nemo_gym", {1: 5}),
        ("nemo_gym/math_with_autograder.jsonl", "nemo_gym", {1: 5}),
        ("verifiers/math_python_outputs_evals_math-python--gpt-4.1-mini_578769a7.jsonl", "verifiers", {3: 5}),
        ("verifiers/math_python_outputs_evals_math-python--gpt-5-nano_cb7a1799.jsonl", "verifiers", {3: 5}),
        ("verifiers/mcp_env_outputs_evals_mcp-env--gpt-4.1-mini_fdac998f.jsonl", "verifiers", {3: 1}),
    ],
)
def test_is_read(name, form, expected_sizes):
    log = read(PUBLISHED / name)
    assert (log.format, sizes(log)) == (form, expected_sizes)
    assert not log.problems
    assert not log.dropped
    assert any("every group has one rollout" in warning for warning in log.warnings) == (1 in expected_sizes)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nemo_gym/code_gen.jsonl", "nothing tells which rollouts answer one task"),
        ("verifiers/wordle_LFS_POINTER.jsonl", "a Git LFS pointer, not the data itself"),
    ],
)
def test_is_refused(name, reason):
    with pytest.raises(DataError, match=reason):
        read(PUBLISHED / name)
