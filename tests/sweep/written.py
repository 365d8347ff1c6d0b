"""What the processes of an experiment would have written, without training anything."""

from corpo_rl.evaluation import ItemTable, table_to_json
from corpo_rl.experiment.folder import append_row, write_json

N_ITEMS = 20


def table(split, n_correct):
    return ItemTable(split, [4] * len(n_correct), list(n_correct), [4] * len(n_correct), [0.5] * len(n_correct), {}, {})


class Written:
    """Stands for `run_all`: writes what the processes would have written."""

    def __init__(self):
        self.calls = []
        self.n_correct = {}
        self.raises = []
        self.told = False
        self.loss = 0.1

    def __call__(self, out, settings, *, methods, seeds, jobs, progress):
        self.calls.append((out.name, settings.min_correct, tuple(seeds)))
        if not (out / "base").exists():
            for split in ("in_domain", "ood"):
                write_json(out / "base" / "evaluation" / f"{split}.json", table_to_json(table(split, [1] * N_ITEMS)))
            write_json(out / "base" / "items.json", {s: {"used": N_ITEMS, "too_long": 0} for s in ("in_domain", "ood")})
            (out / "base" / "policy").mkdir()
        for seed in seeds:
            folder = out / "runs" / f"{methods[0]}-s{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "worker.log").write_text("Traceback\nRuntimeError: probability tensor contains nan\n")
            if self.raises:
                if self.told:
                    write_json(folder / "error.json", {"message": "the task gave NaN", "exit_code": 1})
                raise self.raises.pop(0)
            n_correct = self.n_correct.get(seed, [2] * N_ITEMS)
            for split in ("in_domain", "ood"):
                write_json(folder / "evaluation" / f"{split}.json", table_to_json(table(split, n_correct)))
            append_row(folder / "metrics.jsonl", {"step": 1, "loss": self.loss, "grad_norm": 1.0})
            (folder / "policy").mkdir(exist_ok=True)
