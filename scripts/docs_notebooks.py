"""Run the notebooks of the documentation from top to bottom and keep what they print: [--check] [NOTEBOOK ...]

Each runs in a kernel of its own, in an empty folder. Nothing that differs from run to run is kept, so that the same
notebook gives the same bytes; with `--check` nothing is written, and a notebook that would change is named.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main(arguments: list[str]) -> int:
    """Run those named, or all; 1 when `--check` finds one that would change."""
    check = "--check" in arguments
    named = [Path(argument) for argument in arguments if argument != "--check"]
    n_changed = 0
    for path in named or sorted(FOLDER.glob("*.ipynb")):
        before = path.read_text(encoding="utf-8")
        after = executed(before)
        if before != after:
            n_changed += 1
            sys.stdout.write(f"{path.name} {'would change' if check else 'has changed'}\n")
            if not check:
                path.write_text(after, encoding="utf-8")
    return min(n_changed, 1) if check else 0


def executed(text: str) -> str:
    """A notebook as text, with what its cells print when they run from top to bottom."""
    notebook = nbformat.reads(text, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=60,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,  # however a cell's prints came in
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}}),  # no port is opened
        ).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", nbformat.from_dict({})
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("text/html", None)  # tables are read as text, on every viewer
    return nbformat.writes(notebook) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
