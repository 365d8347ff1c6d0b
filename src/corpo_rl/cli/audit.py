"""`corpo-rl audit`: what an existing run reinforced, and what each estimator would have done."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from corpo_rl.cli.auditing import audited, command_line, output_options, reading_options, write_out
from corpo_rl.errors import CorpoError, DataError, UsageError

STATUSES = {"warn": ("WARN",), "note": ("WARN", "NOTE"), "not-checked": ("NOT CHECKED",)}
"""What --fail-on takes beside the ids of findings."""


class _Audit(click.Command):
    """`audit LOGS...`, and `audit diff A B` where the first argument is "diff" and no such file is there."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] == "diff" and not Path("diff").exists():
            return diff.make_context(f"{info_name} diff", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command(cls=_Audit)
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@reading_options
@output_options
@click.option("--no-text", is_flag=True, help="Show no prompt and no completion.")
@click.option(
    "--fail-on",
    help="Exit with 1 on a finding of this kind: warn, note, not-checked, or ids of findings, with commas between.",
)
@click.option("--follow", is_flag=True, help="Watch a run that is still writing, a line for each new step.")
@click.option("--every", type=float, default=5.0, show_default=True, help="Seconds between looks with --follow.")
@click.option("--idle", type=float, help="With --follow, report and end after so many seconds without news.")
def audit(
    logs: tuple[Path, ...],
    form: str,
    out: Path | None,
    force: bool,
    no_text: bool,
    fail_on: str | None,
    follow: bool,
    every: float,
    idle: float | None,
    **options: Any,
) -> None:
    """Show what the advantages of a run did to its failed rollouts, from the logs it wrote.

    LOGS are files, folders or patterns: TRL completions, verl rollouts, open-instruct, tinker-cookbook, verifiers,
    atropos and other logs, or plain tables (CSV, JSON lines, parquet), compressed or not. The format is detected and
    said. A positive advantage on a failure can be intended shaping: the audit shows it, and leaves the verdict to you.

    Exit status: 0 done; 1 the log is bad, or --fail-on met its finding; 2 the call is wrong, or nothing says which
    rollouts are correct.

    \b
    Examples:
      corpo-rl audit runs/my-run/completions --min-correct 1
      corpo-rl audit rollouts/ --min-correct 0.5 --format html --out audit.html
      corpo-rl audit log.csv --reward-column score --group-columns step,prompt_id
      corpo-rl audit completions/ --reward-weights correct=1,format=0.2
      corpo-rl audit completions/ --min-correct 1 --fail-on warn
      corpo-rl audit completions/ --min-correct 1 --follow
      corpo-rl audit diff before.json after.json
    """
    kinds = _kinds(fail_on)
    if follow:
        _follow(logs, options, every=every, idle=idle)
    document, log = audited(logs, options, with_texts=not no_text)
    write_out(_render(document, form), out, force=force)
    if document["correct_by"] is None:
        raise UsageError(
            f"{log.sources[0]}: nothing says which rollouts are correct; choose a level of the table of thresholds and "
            "pass it with --min-correct, or name a label with --correct-column"
        )
    _fail_on(document, kinds)


@click.command()
@click.argument("a", type=click.Path(path_type=Path, exists=True))
@click.argument("b", type=click.Path(path_type=Path, exists=True))
@reading_options
@output_options
def diff(a: Path, b: Path, form: str, out: Path | None, force: bool, **options: Any) -> None:
    """Compare the audits of two runs.

    A and B are logs, read with the same options, or documents that `corpo-rl audit --format json` wrote.

    Exit status: 0 done; 1 a log is bad; 2 the call is wrong, or nothing says which rollouts of A or B are correct.

    \b
    Examples:
      corpo-rl audit diff grpo/completions corpo/completions --min-correct 1
      corpo-rl audit diff before.json after.json --format md
    """
    from corpo_rl.audit.diff import diff_audits
    from corpo_rl.report.audit_diff import audit_diff_html, audit_diff_json, audit_diff_markdown, audit_diff_text

    documents = [_document(path, options) for path in (a, b)]
    found = diff_audits(*documents, names=(str(a), str(b)), command=command_line())
    render = {"text": audit_diff_text, "md": audit_diff_markdown, "json": audit_diff_json, "html": audit_diff_html}
    write_out(render[form](found), out, force=force)
    unjudged = [str(path) for path, document in zip((a, b), documents, strict=True) if document["correct_by"] is None]
    if unjudged:
        raise UsageError(
            f"{' and '.join(unjudged)}: nothing says which rollouts are correct; pass --min-correct or "
            "--correct-column (for a saved document: when it is made)"
        )


def _document(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """A document of ours as it is; anything else is a log to audit."""
    if path.is_file() and path.suffix == ".json":
        try:
            loaded = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            loaded = None
        if isinstance(loaded, dict) and str(loaded.get("schema", "")).startswith("corpo-rl.audit"):
            from corpo_rl.report.audit_schema import check_audit

            check_audit(loaded, name=str(path))
            return loaded
    return audited([path], options, with_texts=False)[0]


def _render(document: dict[str, Any], form: str) -> str:
    if form == "json":
        from corpo_rl.report.audit_schema import audit_json

        return audit_json(document)
    if form == "html":
        from corpo_rl.report.audit_html import audit_html

        return audit_html(document)
    if form == "md":
        from corpo_rl.report.audit_markdown import audit_markdown

        return audit_markdown(document)
    from corpo_rl.report.audit_text import audit_text

    return audit_text(document)


def _kinds(fail_on: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in fail_on.split(",")) if fail_on else ()


def _fail_on(document: dict[str, Any], kinds: tuple[str, ...]) -> None:
    found = {one["id"]: one["status"] for one in document["findings"]}
    hit = []
    for kind in kinds:
        if kind in STATUSES:
            hit += [name for name, status in found.items() if status in STATUSES[kind]]
        elif kind in found:
            hit += [kind] if found[kind] != "OK" else []
        else:
            raise UsageError(
                f"--fail-on: expected {', '.join(STATUSES)} or ids of findings ({', '.join(found)}), got {kind!r}"
            )
    if hit:
        raise DataError("--fail-on: " + ", ".join(f"{name} is {found[name]}" for name in dict.fromkeys(hit)))


def _follow(logs: tuple[Path, ...], options: dict[str, Any], *, every: float, idle: float | None) -> None:
    """A line for each step once a later one has begun, until Ctrl-C or until nothing has come for `idle` seconds."""
    told: set[int] = set()
    waiting, seen, last_news = "", 0, time.monotonic()
    try:
        while idle is None or time.monotonic() - last_news < idle:
            try:
                document, _ = audited(logs, options, with_texts=False)
            except CorpoError as error:  # not there yet, empty, or half written: looked at again
                if str(error) != waiting:
                    waiting = str(error)
                    click.echo(f"waiting: {waiting}", err=True)
            else:
                if document["curves"] is None:
                    raise UsageError("--follow: the log has no training steps; name them with --step-column")
                for step in document["curves"]["step"][:-1]:  # the last one may still be growing
                    if step not in told:
                        click.echo(_step_line(document, step))
                        told.add(step)
                sys.stdout.flush()
                if document["n_rollouts"] != seen:
                    seen, last_news = document["n_rollouts"], time.monotonic()
            time.sleep(every)
    except KeyboardInterrupt:
        click.echo("", err=True)


def _step_line(document: dict[str, Any], step: int) -> str:
    curves = document["curves"]
    place = curves["step"].index(step)

    def share(name: str) -> str:
        value = curves[name][place]
        return "n/a" if value is None else f"{100 * value:.1f} %"

    reward = curves["reward"][place]
    so_far = document["reinforced_failure_share"]["value"]
    return (
        f"step {step}: {share('reinforced_failure_share')} of failures reinforced"
        f"{'' if so_far is None else f' (run so far {100 * so_far:.1f} %)'}, {share('correct_share')} correct, "
        f"{share('class_all_failed_graded')} of groups all failed and graded, mean reward "
        f"{'n/a' if reward is None else f'{reward:.3g}'}"
    )
