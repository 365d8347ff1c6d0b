"""Thresholds as the table writes them give back their own rows."""

import json
import re

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from corpo_rl.cli.audit import audit
from corpo_rl.report.audit_view import threshold_text


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=6, unique=True))
def test_a_threshold_that_is_read_back_parts_the_rewards_where_it_did(rewards):
    levels = sorted(rewards)
    for below, value in zip([None, *levels], levels, strict=False):
        read = float(threshold_text(value, below))
        assert [reward >= read for reward in levels] == [reward >= value for reward in levels]


def test_a_row_of_the_table_comes_back_with_its_counts(tmp_path):
    """Rewards of ninths, which six digits round up: the row of 0.555556 had a correct rollout that 0.555556 has not."""
    rewards = [0.0, 1 / 9, 5 / 9, 5 / 9, 2 / 9, 0.6, 1.0, 0.0]
    path = tmp_path / "log.jsonl"
    rows = [{"prompt": "pq"[place // 4], "reward": reward, "step": 1} for place, reward in enumerate(rewards)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = CliRunner().invoke(audit, [str(path), "--group-size", "4"]).output
    rows = re.findall(r"^ *(\d\.?\d*) +(\d) +(\d) ", table, flags=re.MULTILINE)
    assert len(rows) == 6, table
    for text, failed, correct in rows:
        told = CliRunner().invoke(audit, [str(path), "--group-size", "4", "--min-correct", text, "--format", "json"])
        again = re.search(r'"n_correct": (\d+)', told.output)
        assert again, told.output
        assert (int(again[1]), int(failed)) == (int(correct), 8 - int(correct)), text
