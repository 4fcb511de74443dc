"""Start a kernel for student code: limits on memory, files and time, no network, few files.

Run as `python kernel.py -f CONNECTION_FILE SANDBOX MEMORY_MB SECONDS`. What the machine offers is
used and what it does not is left out: Landlock and a network namespace need Linux, limits need
POSIX, another user needs the superuser and HMOE_STUDENT_UID. `measures()` says what was in force.
None of it replaces a container (see the guide).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from pathlib import Path

ASSIGNMENTS = Path(__file__).resolve().parents[1]
ROOT = ASSIGNMENTS.parents[1]
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc", "/proc", "/sys/devices/system/cpu",
          "/dev/urandom", "/dev/random", "/dev/null", "/dev/zero", "/opt")  # fmt: skip
READ = 0b1101  # execute, read file, read directory
NEWNET, NEWUSER = 0x40000000, 0x10000000
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
IN_FORCE: list[str] = []


def limit(memory_mb: int, seconds: int) -> None:
    """Bound memory, the size of files, and processor time."""
    try:
        import resource
    except ImportError:  # Windows
        return
    bounds = {
        resource.RLIMIT_AS: memory_mb << 20,
        resource.RLIMIT_FSIZE: 64 << 20,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_CORE: 0,
    }
    for kind, bound in bounds.items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (bound, bound))
    IN_FORCE.append("limits")


def leave_network() -> None:
    """Move to a network namespace that holds nothing; messages go through files."""
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(NEWNET) == 0 or libc.unshare(NEWUSER | NEWNET) == 0:
            IN_FORCE.append("no network")


def confine(sandbox: Path) -> None:
    """Landlock: read Python, its packages, the library and the system; write the sandbox only."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(CREATE_RULESET, None, 0, 1)
    if abi < 1:
        return
    every = (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1
    attributes = struct.pack("QQQ", every, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = libc.syscall(CREATE_RULESET, attributes, size, 0)
    if rules < 0:
        return
    library = [ROOT / "hmoe_lib", *(p for p in map(Path, sys.path) if "-packages" in p.name)]
    readable = [*SYSTEM, sys.prefix, sys.base_prefix, *library]
    for path, access in [(sandbox, every), *((p, READ) for p in readable)]:
        _allow(libc, rules, Path(path), access)
    # Without this flag only the superuser may restrict a process.
    if libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT_SELF, rules, 0) == 0:
        IN_FORCE.append("files")
    os.close(rules)


def _allow(libc, rules: int, path: Path, access: int) -> None:
    if not path.exists():
        return
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not path.is_dir():  # a file has no directory rights; writing is for /dev/null
        access = access & 0b111 | (0b10 if str(path) == "/dev/null" else 0)
    libc.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", access, fd), 0)
    os.close(fd)


def become(user: str, sandbox: Path) -> None:
    """Give up the superuser for a user of the container, who owns the sandbox and nothing else."""
    if not user or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    uid = int(user)
    for path in (sandbox, *sandbox.iterdir()):
        os.chown(path, uid, uid)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    IN_FORCE.append("another user")


def watch(forbidden: list[str]) -> None:
    """Refuse to open the assignments and the course from Python: all there is without Landlock."""
    opening = {"open", "os.listdir", "os.scandir", "os.chdir", "sqlite3.connect"}

    def hook(event: str, args: tuple) -> None:
        if event in opening and args and isinstance(args[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(args[0]))
            if any(path == f or path.startswith(f + os.sep) for f in forbidden):
                raise PermissionError(f"{path} belongs to the grader")

    sys.addaudithook(hook)


def measures() -> list[str]:
    """What is in force in this process."""
    return list(IN_FORCE)


def main(connection_file: str, sandbox: str, memory_mb: str, seconds: str) -> None:
    """Restrict this process first, then start the kernel: its threads inherit what was done."""
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).parent]
    leave_network()
    sys.path[:0] = [str(ROOT), str(ASSIGNMENTS)]
    import classroom.messages  # noqa: F401
    import hmoe_lib  # noqa: F401 # its folder stays readable, so the rest of it can be imported later

    del sys.path[:2]
    sys.modules["classroom.kernel"] = sys.modules["__main__"]
    become(os.environ.pop("HMOE_STUDENT_UID", ""), Path(sandbox))
    confine(Path(sandbox))
    watch([str(ASSIGNMENTS), *filter(None, [os.environ.pop("HMOE_COURSE", "")])])
    limit(int(memory_mb), int(seconds))
    os.chdir(sandbox)
    from ipykernel.kernelapp import IPKernelApp

    app = IPKernelApp.instance()
    app.initialize(["-f", connection_file, "--HistoryManager.hist_file=:memory:"])
    app.start()


if __name__ == "__main__":
    main(*sys.argv[2:])
