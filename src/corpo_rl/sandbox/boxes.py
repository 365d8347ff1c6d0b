"""The two sandboxes of a judge: bubblewrap's command, and what is let in."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO

from corpo_rl.errors import CorpoError, UsageError

SYSTEM_PYTHON = Path("/usr/bin/python3")
"""The interpreter of candidates and tests by default: what is under /usr is readable for everybody."""

_NOBODY = 65534
_INSTALL = "install it (on Debian and Ubuntu: apt install bubblewrap)"
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/lib32", "/etc/alternatives", "/etc/ld.so.cache")
_ENVIRONMENT = {"PATH": "/usr/bin", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}


@dataclass
class Box:
    """A process in a sandbox of its own."""

    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]
    """What it wrote on standard error."""

    def complaint(self) -> str:
        """The last line it wrote on standard error."""
        self.errors.seek(0)
        lines = self.errors.read()[-4000:].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def kill(self) -> None:
        """End it and everything in it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                pipe.close()


def find_bubblewrap() -> str:
    """Path of bubblewrap.

    Raises:
        CorpoError: It is not installed: nothing is run without it.
    """
    found = shutil.which("bwrap")
    if found is None:
        raise CorpoError(f"candidate programs run under bubblewrap only, and bwrap was not found; {_INSTALL}")
    return found


def start_box(
    script: str,
    arguments: Sequence[str],
    *,
    python: Path,
    shared: int,
    conversing: bool,
    may_make_namespaces: bool,
) -> Box:
    """Start one of the scripts in `inside/` in a sandbox.

    No network, no home, a read-only system, an empty root that nobody can write to, no device but /dev/null, own
    process, user, IPC and host-name namespaces. Started by root it first becomes nobody.

    Args:
        script: Its file name.
        arguments: Its arguments.
        python: The interpreter.
        shared: A descriptor that it gets under the same number.
        conversing: Whether its standard input and output are pipes to us, else /dev/null.
        may_make_namespaces: Whether it keeps the one capability that making namespaces needs.

    Raises:
        CorpoError: bubblewrap is not installed, or may not be run.
    """
    command = [find_bubblewrap(), *_isolation(python), *_environment(_ENVIRONMENT)]
    command += ["--cap-add", "CAP_SYS_ADMIN"] if may_make_namespaces else ["--disable-userns"]
    sources = {path.name: path.read_bytes() for path in files("corpo_rl.sandbox.inside").iterdir() if path.is_file()}
    descriptors = {name: _readable(text) for name, text in sources.items() if name.endswith(".py")}
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by Box.kill
    for name, descriptor in descriptors.items():
        command += ["--ro-bind-data", str(descriptor), f"/box/{name}"]
    command += ["--remount-ro", "/", "--", str(python), "-s", f"/box/{script}", str(shared), *arguments]
    identity = {"user": _NOBODY, "group": _NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if conversing else subprocess.DEVNULL,
            stdout=subprocess.PIPE if conversing else subprocess.DEVNULL,
            stderr=errors,
            cwd="/",
            # --clearenv is too late: /proc/1/environ shows what bubblewrap itself was given
            env={},
            pass_fds=(shared, *descriptors.values()),
            bufsize=0,
            **identity,  # type: ignore[call-overload]
        )
    except OSError as error:
        errors.close()
        raise CorpoError(
            f"{command[0]}: bubblewrap does not start ({error.strerror}); candidates run as nobody, who has to be "
            "allowed to run it"
        ) from None
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
    return Box(process, errors)


def _isolation(python: Path) -> list[str]:
    command = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    command += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--uid", str(_NOBODY), "--gid", str(_NOBODY), "--hostname", "sandbox"]
    for path in _SYSTEM:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    for path in _prefixes(python):
        command += ["--ro-bind", path, path]
    return [*command, "--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null", "--proc", "/proc", "--dir", "/tmp"]  # noqa: S108


@cache
def _prefixes(python: Path) -> tuple[str, ...]:
    """Folders outside /usr that an interpreter lives in.

    Raises:
        UsageError: There is no such interpreter, or it is too old.
    """
    question = "import sys; print(sys.prefix, sys.base_prefix, sys.version_info >= (3, 10), sep='\\n')"
    try:
        answer = subprocess.run(
            [str(python), "-I", "-c", question], capture_output=True, text=True, check=True, timeout=60
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"{python}: expected a Python that candidates can run on ({error}); install the system's python3 or name "
            "another with --python"
        ) from None
    if answer[2] != "True":
        raise UsageError(f"{python}: expected Python 3.10 or newer; name another with --python")
    return tuple(dict.fromkeys(path for path in answer[:2] if not Path(path).is_relative_to("/usr")))


def _environment(variables: Mapping[str, str]) -> list[str]:
    command = ["--clearenv"]
    for name, value in variables.items():
        command += ["--setenv", name, value]
    return command


def _readable(text: bytes) -> int:
    """A descriptor from which bubblewrap reads the text: the package may lie where nobody else can read it."""
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        return os.dup(file.fileno())
