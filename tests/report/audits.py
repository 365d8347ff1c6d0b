"""Audits for the tests of the reports, written by hand."""

import copy
import math

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror=window.hacked=1>",
    "[click](javascript:window.hacked=1)",
    "\x1b[2J\x1b[31mred\x07\r\n\x00",
    "\u202egnp.exe\u2066\u200b\ud800",
    "W" * 100_000,
    '"><svg onload=window.hacked=1>&amp;`|*_#',
)
"""Texts that no report may let through."""

ESTIMATORS = ("grpo", "dr_grpo", "rloo", "static", "corpo", "loo_corpo")

CLASSES = ("all_failed_equal", "all_failed_graded", "mixed", "all_correct_graded", "all_correct_equal")

CURVES = (
    "n_rollouts", "reward", "correct_share", "reinforced_failure_share", "r_count", "r_loss_proxy",
    "floored_group_share", "zero_variance_share", *(f"class_{name}" for name in CLASSES), "unscorable",
)  # fmt: skip


def make_audit(n_steps=50):
    """A graded run whose failures were reinforced, with everything a log can hold."""
    return {
        "schema": "corpo-rl.audit/1",
        "corpo_rl_version": "0.1.0",
        "created": "2026-12-01T06:00:00+00:00",
        "command": "corpo-rl audit runs/demo/completions --min-correct 0.9",
        "log": {
            "format": "trl",
            "title": "TRL completions",
            "said": "TRL completions, 50 files, grouped by prompt within a step, 1,251 groups (1,250 of 8, 1 of 3)",
            "n_files": 50,
            "sources": [f"completions/completions_{step:05d}.parquet" for step in range(1, 21)],
            "grouped_by": "prompt within a step",
            "n_rows": 10_123,
            "dropped": {"duplicate": 116, "broken line": 4},
            "unscorable": {"null": 9, "NaN": 2},
            "problems": ["completions_00003.parquet:212: reward is null"],
            "columns_used": {"reward": "total", "group": "prompt", "step": "step", "advantage": "advantage"},
            "columns_unused": ["entropy", "trace_id"],
            "group_sizes": {"8": 1_250, "3": 1},
            "steps": {"first": 1, "last": n_steps, "n": n_steps},
            "warnings": ["1 group has 3 rollouts where others have 8; the log may be cut off"],
            "notes": ["bool rewards were read as 0 and 1"],
            "float32": True,
        },
        "n_rollouts": 10_003,
        "n_groups": 1_251,
        "n_prompts": 626,
        "n_unscorable": 11,
        "n_without_advantage": 7,
        "n_without_length": 13,
        "min_correct": 0.9,
        "correct_by": "reward >= 0.9",
        "estimator": "grpo, batch std",
        "advantages_from": "logged",
        "n_failed": 8_204,
        "n_correct": 1_781,
        "n_reinforced_failures": 2_561,
        "reinforced_failure_share": {"value": 0.312165, "low": 0.298443, "high": 0.327217},
        "level": 0.95,
        "resampled": "prompts",
        "in_all_failed_groups_share": 0.880516,
        "table": {
            "failed": {
                "rollouts": {"positive": 2_561, "zero": 1_620, "negative": 4_023},
                "mass": {"positive": 1_744.62, "zero": 3.1e-14, "negative": 2_816.4},
                "token_mass": {"positive": 612_344.5, "zero": 1e-11, "negative": 1_034_877.25},
            },
            "correct": {
                "rollouts": {"positive": 1_542, "zero": 218, "negative": 21},
                "mass": {"positive": 1_077.1, "zero": 0.0, "negative": 5.325},
                "token_mass": {"positive": 401_222.0, "zero": 0.0, "negative": 1_733.5},
            },
        },
        "length_unit": "tokens",
        "r_count": 1.014589,
        "r_loss_proxy": 0.999934,
        "r_loss_proxy_definition": "sum of |A| over A > 0 / sum of |A| over A < 0; a proxy: no log-probabilities",
        "r_loss_proxy_tokens": 0.977734,
        "group_classes": dict(zip((*CLASSES, "unscorable"), (103, 745, 361, 31, 10, 1), strict=True)),
        "phases": {"correctness_seeking": 1_104, "preference_seeking": 146},
        "zero_variance_groups": 113,
        "n_groups_comparable": 1_249,
        "curves": make_curves(n_steps),
        "estimators": {
            name: {
                "n_reinforced_failures": n_up,
                "reinforced_failure_share": share,
                "r_count": ratio,
                "r_loss_proxy": proxy,
                "zero_signal_groups": silent,
                "negative_only_groups": down_only,
                "sign_flips": flips,
                "positive": up,
                "zero": zero,
                "negative": down,
            }
            for name, n_up, share, ratio, proxy, silent, down_only, flips, up, zero, down in (
                ("grpo", 2_561, 0.312165, 1.014589, 0.999934, 113, 0, 0, 4_103, 1_838, 4_044),
                ("dr_grpo", 2_560, 0.312043, 1.014342, 1.0, 113, 0, 1, 4_102, 1_839, 4_044),
                ("rloo", 2_559, 0.311921, 1.014095, 1.000012, 113, 0, 2, 4_101, 1_840, 4_044),
                ("static", 0, 0.0, 0.045100, 0.031177, 7, 848, 5_961, 370, 1_411, 8_204),
                ("corpo", 0, 0.0, 0.044247, 0.030066, 8, 847, 5_954, 363, 1_418, 8_204),
                ("loo_corpo", 3, 0.000366, 0.043882, 0.029955, 9, 846, 5_949, 360, 1_421, 8_201),
            )
        },
        "counterfactual_note": "advantages only, not what training would have become",
        "logged_estimator": {
            "status": "reproduced",
            "name": "grpo, batch std",
            "also": ["dr_grpo, batch std"],
            "precision": 2.4e-07,
            "n_compared": 9_985,
            "share_reproduced": 0.99981,
            "inferred_floor": 0.75,
            "claimed": "corpo",
            "candidates": {
                "grpo, batch std": {"max_error": 2.4e-07, "share_reproduced": 0.99981},
                "grpo": {"max_error": 0.412, "share_reproduced": 0.1841},
                "corpo": {"max_error": 1.75, "share_reproduced": 0.0},
                "rloo": {"max_error": None, "share_reproduced": None},
            },
        },
        "threshold": {
            "floor_state": "active",
            "levels": [
                level(-0.25, 0, 9_985, 0, None, 0.0, "inert"),
                level(0.5, 6_011, 3_974, 1_203, 0.200133, 0.4021, "active"),
                level(0.9, 8_204, 1_781, 2_561, 0.312165, 0.8832, "active"),
                level(1.0, 8_977, 1_008, 3_017, 0.336081, 0.9996, "saturated"),
            ],
            "grid": False,
            "ordering": {
                "n_groups_checked": 359,
                "n_groups_inverted": 17,
                "n_failed_above_correct": 23,
                "n_compared": 9_979,
                "n_label_correct_under_min_correct": 41,
                "n_label_failed_over_min_correct": 19,
            },
        },
        "components": [
            component("partial_credit", 0.8, 2_107, 0.822711, 0.17123, 0.20444, 731),
            component("format_reward", 0.2, 438, 0.177289, 0.09321, 0.01207, 402),
        ],
        "examples": [
            {
                "step": 12,
                "group": 301 + place,
                "where": f"completions_00012.parquet:{2_411 + place}",
                "reward": 0.84,
                "advantage": 2.471 - place / 10,
                "prompt": "What is 17 x 24?\nAnswer in a box.",
                "completion": "17 x 24 = 340 + 64\n\t= 404, so the answer is 404.",
                "siblings": [
                    sibling(0.12, -0.353, False, "I do not know."),
                    sibling(None, 0.0, None, None),
                    sibling(1.0, 2.9, True, "17 x 24 = 408."),
                ],
                "n_siblings_left_out": 4,
            }
            for place in range(5)
        ],
        "findings": make_findings(),
    }


def make_findings():
    """One finding of each status, and one more."""
    return [
        finding("correctness", "OK", "What counts as correct is stated", "1,781 correct, 8,204 failed"),
        finding(
            "reinforced_failures",
            "WARN",
            "Failed rollouts that were reinforced",
            "2,561 of 8,204 failed rollouts had an advantage above 0. It can be intended shaping",
            action={"trl": "CorpoConfig(min_correct=...)", "verl": "adv_estimator", "general": "gate the shaping"},
            reference="https://arxiv.org/abs/2511.04439",
        ),
        finding("token_mass", "NOTE", "How much token mass pushes failures up", "60.4 % of the upward |A| x tokens"),
        finding("coverage", "NOT CHECKED", "The log covers the run", "no training steps", needs="--step-column"),
    ]


def make_curves(n_steps):
    """Curves of every figure; r_count is undefined in the fourth step."""
    curves = {"step": list(range(1, n_steps + 1))}
    for place, name in enumerate(CURVES):
        wave = [round(0.5 + 0.3 * math.sin(place + step / 9), 4) for step in range(n_steps)]
        curves[name] = wave
    for place, name in enumerate(CLASSES):
        curves[f"class_{name}"] = [(0.10, 0.55, 0.25, 0.07, 0.03)[place]] * n_steps
    curves["n_rollouts"], curves["unscorable"] = [200] * n_steps, [step % 3 for step in range(n_steps)]
    if n_steps > 3:
        curves["r_count"][3] = None
    return curves


def make_unjudged():
    """The same log when nothing says which rollouts are correct."""
    audit = make_audit()
    audit |= dict.fromkeys(
        ("min_correct", "correct_by", "n_failed", "n_correct", "n_reinforced_failures", "table", "group_classes")
    )
    audit |= {"in_all_failed_groups_share": None, "phases": None}
    audit |= {"reinforced_failure_share": {"value": None, "low": None, "high": None}, "components": [], "examples": []}
    for name in ("correct_share", "reinforced_failure_share", "floored_group_share"):
        audit["curves"][name] = [None] * 50
    for name in CLASSES:
        audit["curves"][f"class_{name}"] = [None] * 50
    for name in ("static", "corpo", "loo_corpo"):
        audit["estimators"][name] = None
    for name in ("grpo", "dr_grpo", "rloo"):
        audit["estimators"][name] |= {"n_reinforced_failures": None, "reinforced_failure_share": None}
    audit["threshold"] |= {"floor_state": None}
    audit["threshold"]["ordering"] |= dict.fromkeys(
        ("n_label_correct_under_min_correct", "n_label_failed_over_min_correct")
    )
    audit["findings"] = [
        finding(
            "correctness", "NOT CHECKED", "What counts as correct is stated", "nothing says", needs="--min-correct"
        ),
        finding("coverage", "NOT CHECKED", "The log covers the run", "no training steps", needs="--step-column"),
    ]
    return audit


def make_bare():
    """A log with rewards and groups only, in which no failure was reinforced: a healthy run with rewards of 0 and 1."""
    audit = make_audit()
    audit["log"] |= {"steps": None, "warnings": [], "notes": [], "problems": [], "dropped": {}, "unscorable": {}}
    audit["log"] |= {"columns_unused": [], "columns_used": {"reward": "score"}, "float32": False}
    audit |= {"n_prompts": None, "n_unscorable": 0, "n_without_advantage": 0, "n_without_length": 0}
    audit |= {"curves": None, "components": [], "examples": [], "length_unit": None, "r_loss_proxy_tokens": None}
    audit |= {"n_reinforced_failures": 0, "in_all_failed_groups_share": None, "resampled": "groups"}
    audit |= {"reinforced_failure_share": {"value": 0.0, "low": 0.0, "high": 0.0}}
    audit |= {"estimator": "grpo", "advantages_from": "recomputed", "r_count": None}
    audit["table"]["failed"]["rollouts"] = {"positive": 0, "zero": 4_181, "negative": 4_023}
    for cells in audit["table"].values():
        cells["token_mass"] = None
    for found in audit["estimators"].values():
        found |= {"n_reinforced_failures": 0, "reinforced_failure_share": 0.0}
    audit["threshold"] |= {"ordering": None, "grid": True}
    audit["logged_estimator"] |= {
        "status": "no advantages", "name": None, "also": [], "precision": None, "n_compared": 0,
        "share_reproduced": None, "inferred_floor": None, "claimed": None, "candidates": {},
    }  # fmt: skip
    return audit


def make_hostile():
    """An audit in which every text that can come from a log is hostile."""
    audit = make_audit()
    bad = "".join(HOSTILE[:5]) + HOSTILE[6]
    long = HOSTILE[5]
    log = audit["log"]
    log |= {"title": bad, "said": bad + long, "grouped_by": bad, "sources": [*HOSTILE], "problems": [*HOSTILE]}
    log |= {"columns_used": {text[:50]: text for text in HOSTILE}, "columns_unused": [*HOSTILE]}
    log |= {"dropped": {text[:80]: 3 for text in HOSTILE}, "unscorable": {text[:80]: 3 for text in HOSTILE}}
    log |= {"warnings": [*HOSTILE], "notes": [*HOSTILE]}
    audit |= {"command": bad + long, "correct_by": f"label {bad}", "estimator": bad, "created": bad}
    audit |= {"corpo_rl_version": bad, "counterfactual_note": bad, "r_loss_proxy_definition": bad + long}
    audit["estimators"][bad] = audit["estimators"]["grpo"]
    audit["logged_estimator"] |= {"name": bad, "also": [*HOSTILE], "claimed": long}
    audit["logged_estimator"]["candidates"] |= {text: {"max_error": 1.0, "share_reproduced": 0.5} for text in HOSTILE}
    for row in audit["threshold"]["levels"]:
        row["floor_state"] = bad
    for text in HOSTILE:
        audit["components"].append(component(text, 1.0, 3, 0.5, 0.1, 0.2, 4))
        audit["findings"].append(
            finding(text, "WARN", text, text, needs=text, action={text: text, "trl": text}, reference=text)
        )
        example = copy.deepcopy(audit["examples"][0])
        example |= {"where": text, "prompt": text, "completion": text + "\n" + bad}
        example["siblings"][0]["completion"] = text
        audit["examples"].insert(0, example)
    return audit


def make_diff():
    """Two audits compared, with a figure that is not known in one of them."""
    return {
        "schema": "corpo-rl.audit-diff/1",
        "corpo_rl_version": "0.1.0",
        "created": "2026-12-01T06:00:00+00:00",
        "command": "corpo-rl audit diff grpo corpo",
        "a": {"name": "runs/grpo", "said": "TRL completions, 50 files"},
        "b": {"name": "runs/corpo", "said": "TRL completions, 60 files"},
        "comparable": ["groups have other sizes: 8 and 16"],
        "figures": [
            figure("reinforced_failure_share", "failed rollouts reinforced", 0.312165, 0.0, -0.312165, -0.327, -0.298),
            figure("in_all_failed_groups_share", "reinforced failures in groups without a success", 0.88, None, None),
            figure("r_count", "r_count: pushed up per pushed down", 1.014589, 0.25, -0.764589),
            figure("class_mixed", "mixed groups", 0.288569, 0.35, 0.061431),
        ],
        "findings": [{"id": "floor", "title": "A floor separates something", "a": "NOT CHECKED", "b": "WARN"}],
    }


def make_hostile_diff():
    """A comparison with hostile names, sentences, labels and titles."""
    diff = make_diff()
    bad = "".join(HOSTILE)
    diff |= {"a": {"name": bad, "said": bad}, "b": {"name": HOSTILE[5], "said": bad}, "comparable": [*HOSTILE]}
    diff |= {"command": bad, "created": bad, "corpo_rl_version": bad}
    diff["figures"] += [figure("r_count", text, 1.0, 2.0, 1.0) for text in HOSTILE]
    diff["findings"] += [{"id": text, "title": text, "a": "OK", "b": "WARN"} for text in HOSTILE]
    return diff


def level(min_correct, n_failed, n_correct, n_up, share, floored, state):
    return {
        "min_correct": min_correct, "n_failed": n_failed, "n_correct": n_correct, "n_reinforced_failures": n_up,
        "reinforced_failure_share": share, "floored_group_share": floored, "floor_state": state,
    }  # fmt: skip


def component(name, weight, n_decisive, lift, std_failed, std_other, n_varying):
    return {
        "name": name, "weight": weight, "n_reinforced_by_it": n_decisive, "share_of_positive_mass": lift,
        "std_all_failed": std_failed, "std_other": std_other, "n_all_failed_groups_varying": n_varying,
    }  # fmt: skip


def sibling(reward, advantage, correct, completion):
    return {"reward": reward, "advantage": advantage, "correct": correct, "completion": completion}


def finding(name, status, title, evidence, *, needs=None, action=None, reference=None):
    return {
        "id": name, "status": status, "title": title, "evidence": evidence, "needs": needs, "action": action or {},
        "reference": reference,
    }  # fmt: skip


def figure(key, label, a, b, difference, low=None, high=None):
    return {"key": key, "label": label, "a": a, "b": b, "difference": difference, "low": low, "high": high}


AUDITS = {"graded": make_audit(), "unjudged": make_unjudged(), "bare": make_bare(), "hostile": make_hostile()}
