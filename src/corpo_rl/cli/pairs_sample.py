"""`corpo-rl pairs sample`: problems -> n answers each from any policy."""

import time
from pathlib import Path

import click

from corpo_rl.cli.extras import check_extras, needs_of_policies
from corpo_rl.errors import CorpoError


@click.command(short_help="Ask a model for answers to problems.")
@click.argument("model")
@click.argument("problems", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Candidates file to write.")
@click.option("--n", type=click.IntRange(min=1), default=8, show_default=True, help="Answers to each problem.")
@click.option("--temperature", type=click.FloatRange(min=0), default=0.8, show_default=True, help="0 is greedy.")
@click.option("--top-p", type=click.FloatRange(min=0, max=1, min_open=True), default=1.0, show_default=True)
@click.option("--max-new-tokens", type=click.IntRange(min=1), default=1024, show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="Take only the first problems.")
@click.option("--max-requests", type=click.IntRange(min=1), help="Budget: stop after so many answers in this call.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Budget: most new tokens in this call.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--form", help="Form of the problems file.  [default: told by its fields]")
@click.option("--batch-size", type=click.IntRange(min=1), default=16, show_default=True, help="Of a local model.")
@click.option("--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Of an endpoint.")
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=120.0, show_default=True, help="Seconds for one answer."
)
@click.option("--retries", type=click.IntRange(min=0), default=5, show_default=True, help="Further tries of a request.")
@click.option("--force", is_flag=True, help="Begin anew, whatever the file holds.")
def sample(
    model: str,
    problems: Path,
    out: Path,
    n: int,
    temperature: float,
    top_p: float,
    max_new_tokens: int,
    limit: int | None,
    max_requests: int | None,
    max_tokens: int | None,
    seed: int,
    form: str | None,
    batch_size: int,
    concurrency: int,
    timeout: float,
    retries: int,
    force: bool,
) -> None:
    """Ask MODEL for answers to PROBLEMS, as candidates for `pairs label`.

    MODEL is a folder, a hub id, a PEFT adapter, "smollm2", or the URL of an
    OpenAI-compatible API such as vLLM's, with the model's name after a "#". An
    endpoint's key is read from OPENAI_API_KEY. Interrupted, or stopped by its
    budget, the same command goes on; with a larger --n it adds.

    The tokens of --max-tokens are those that the server counts. No request is
    sent that could exceed them, so up to --max-new-tokens of them stay unused.

    \b
    Examples:
      corpo-rl pairs sample http://127.0.0.1:8000/v1#Qwen/Qwen3-8B \\
        HumanEval.jsonl.gz --n 16 --out candidates.jsonl --max-tokens 1000000
      corpo-rl pairs sample ./my-model problems.jsonl --n 4 --out c.jsonl
    """
    check_extras(f"corpo-rl pairs sample with the model {model}", needs_of_policies([model]))
    from tqdm import tqdm

    from corpo_rl.pairs.files import file_sha256
    from corpo_rl.pairs.problems import read_usable_problems
    from corpo_rl.pairs.sampling import sample_candidates
    from corpo_rl.policies.endpoint import EndpointPolicy
    from corpo_rl.policies.opening import open_policy
    from corpo_rl.records import SamplingSettings

    started = time.monotonic()
    usable = read_usable_problems(problems, form=form)
    policy = open_policy(
        model,
        batch_size=batch_size,
        concurrency=concurrency,
        timeout=timeout,
        retries=retries,
        most_tokens=max_tokens,
    )
    with tqdm(desc="sampling", unit=" answers") as bar:

        def show(done: int, total: int) -> None:
            if bar.total is None:  # those of earlier calls are not of this one's speed
                bar.total, bar.n, bar.initial = total, done, done
            bar.update(done - bar.n)

        try:
            sampled = sample_candidates(
                usable.problems[:limit],
                policy.stream,
                n=n,
                settings=SamplingSettings(max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p),
                # not the address, which may be another when the job goes on
                source=policy.model if isinstance(policy, EndpointPolicy) else policy.name,
                out=out,
                seed=seed,
                inputs={"problems": file_sha256(problems)},
                most=max_requests,
                force=force,
                on_sample=show,
            )
        except (CorpoError, KeyboardInterrupt):
            if bar.n:
                bar.close()
                click.echo(f"{bar.n:,} of {bar.total:,} answers are in {out}; the same command goes on.", err=True)
            raise
    before = f", {sampled.n_resumed:,} of them before" if sampled.n_resumed else ""
    click.echo(
        f"{sampled.n_done:,} of {sampled.n_wanted:,} answers{before}: {sampled.n_cut:,} cut by --max-new-tokens, "
        f"{sampled.n_empty:,} empty, {sampled.n_repeated:,} that repeat another; "
        f"{time.monotonic() - started:,.0f} s."
    )
    if sampled.n_repeated * 2 >= sampled.n_done > 0:
        click.echo(
            "Half of them or more repeat another answer to their problem: raise --temperature, or see that the server "
            "draws at all (`transformers serve` does only where the model's generation_config.json says do_sample)."
        )
    if usable.left_out:
        click.echo(f"Left out: {len(usable.left_out):,} problems that cannot be judged: {usable.left_out[0]}")
    if sampled.n_done < sampled.n_wanted:
        click.echo("The budget is used up; the same command goes on.")
    click.echo(str(out))
