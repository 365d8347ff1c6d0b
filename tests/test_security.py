"""What SECURITY.md says is never done is not done, in any file outside the sandbox."""

import ast
from pathlib import Path

import pytest

import corpo_rl
from corpo_rl.errors import DataError
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_with_texts

SOURCE = Path(corpo_rl.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if "inside" not in path.relative_to(SOURCE).parts]

UNPICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal", "joblib", "jsonpickle"}
RUN_TEXT = {"eval", "exec", "compile", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
UNSAFE_LOADERS = {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"}


def deeds(source):
    """What a file does of the things that are never done, by line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{node.lineno}: imports {name}" for name in names if name.split(".")[0] in UNPICKLERS]
        if isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle", "trust_remote_code"):
            found += [f"{node.lineno}: {ast.unparse(node)}"] * (ast.unparse(node.value) != "False")
        if isinstance(node, ast.Call):
            called, settings = ast.unparse(node.func), {one.arg: ast.unparse(one.value) for one in node.keywords}
            module, _, name = called.rpartition(".")
            safe = settings.get("weights_only") == "True"
            if (
                called in RUN_TEXT
                or (called == "torch.load" and not safe)
                or (module == "yaml" and name in UNSAFE_LOADERS)
            ):
                found.append(f"{node.lineno}: {called}()")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_file_unpickles_or_runs_text(path):
    assert deeds(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import json, pickle", ["1: imports pickle"]),
        ("from dill import loads", ["1: imports dill"]),
        ("def f(x):\n    return eval(x)", ["2: eval()"]),
        ("torch.load(path)", ["1: torch.load()"]),
        ("torch.load(path, weights_only=False)", ["1: torch.load()"]),
        ("yaml.load(text)", ["1: yaml.load()"]),
        ("subprocess.run(text, shell=True)", ["1: shell=True"]),
        ("AutoModel.from_pretrained(x, trust_remote_code=asked)", ["1: trust_remote_code=asked"]),
        ("np.load(path, allow_pickle=True)", ["1: allow_pickle=True"]),
        ("torch.load(path, weights_only=True); model.eval(); re.compile(x); yaml.safe_load(x); json.load(f)", []),
    ],
)
def test_the_check_sees_each(source, found):
    assert deeds(source) == found


@pytest.mark.parametrize("name", ["rollouts.pkl", "rollouts.pt", "rollouts.pickle", "rollouts.pth"])
def test_a_pickle_is_refused_unread(tmp_path, name):
    trap = tmp_path / "opened"
    # a pickle that makes a file when it is loaded: os.mkdir(trap)
    (tmp_path / name).write_bytes(f"cos\nmkdir\n(V{trap}\ntR.".encode())
    with pytest.raises(DataError, match="pickle"):
        read_with_texts([str(tmp_path / name)], ReadOptions())
    assert not trap.exists()
