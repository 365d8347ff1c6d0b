"""A process that carries out the runs it is told, one after another: `python -m corpo_rl.study.worker OUT NUMBER`.

It reads a job a line from its standard input and answers each with a line. A record is written whole or not at all, so
it may be killed at any moment.
"""

import json
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpo_rl.errors import CorpoError
from corpo_rl.experiment.folder import write_text
from corpo_rl.experiment.worker import environment
from corpo_rl.study.plan import Job, Run, Sizes, record_path


def job_from_json(data: Mapping[str, Any]) -> Job:
    """The job that `execution.job_as_json` wrote."""
    return Job(Run(**data["run"]), Sizes(**data["sizes"]), data["learning_rate"], tuple(data["judged"]))


def main(out: Path, number: int) -> None:
    """Answer every job on standard input with {"name", "seconds"} or {"name", "error"}."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    # libraries print; what they print belongs to the log, and the answers alone to the parent
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
    from corpo_rl.study.execution import execute

    for line in sys.stdin:
        job = job_from_json(json.loads(line))
        answer: dict[str, Any] = {"name": job.run.name}
        try:
            record = execute(job, out, out / "scratch" / str(number))
            whole = {**record, "environment": environment()}
            write_text(record_path(out, job.run), json.dumps(whole, allow_nan=False) + "\n")
            answer["seconds"] = record["seconds"]["all"]
        except CorpoError as error:
            answer["error"] = str(error)
        except Exception as error:  # anything else is a fault: its traceback goes to the log, its last line to the user
            traceback.print_exc()
            answer["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _end_with_parent(parent: int) -> None:
    """End this process soon after the parent is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]))
