"""Run a submission: student cells in a confined kernel, tests here, where no student code is.

A test cell is executed in the grader's own process. A student's name in it stands for a proxy:
the arguments go to the kernel as plain data, the result comes back as plain data, and is judged
here. So patching numpy or the library in the kernel changes nothing, and hidden tests never reach
the place where student code runs.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import queue
import shutil
import signal
import symtable
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import nbformat
import psutil
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from nbclient.util import run_sync
from nbformat.v4 import new_code_cell, new_output
from nbgrader.preprocessors import Execute
from traitlets import Integer, Unicode

from classroom import messages

TEST_SECONDS = 60  # of processor time, for what one test computes here
REVIVAL_SECONDS = 20  # to come back after an interrupt; a fifth of it may be spent computing


class ConfinedKernel(AsyncKernelManager):
    """Starts `kernel.py` in a sandbox of its own, reached through files, not the network."""

    memory_mb = Integer(3000, help="memory of the students' kernel").tag(config=True)
    cpu_seconds = Integer(240, help="processor time of the students' kernel").tag(config=True)
    course = Unicode("", help="folder that student code must not read").tag(config=True)

    def __init__(self, **kw):
        super().__init__(**kw)
        self.sandbox = tempfile.mkdtemp(prefix="hmoe-")
        self.transport = "ipc"
        self.connection_file = str(Path(self.sandbox) / "kernel.json")

    def format_kernel_cmd(self, extra_arguments=None) -> list[str]:
        launcher = str(Path(__file__).with_name("kernel.py"))
        bounds = [str(self.memory_mb), str(self.cpu_seconds)]
        return [sys.executable, launcher, "-f", self.connection_file, self.sandbox, *bounds]

    async def _async_pre_start_kernel(self, **kw):
        known = ("PATH", "LANG", "SYSTEMROOT", "HMOE_STUDENT_UID")
        kept = {k: os.environ[k] for k in known if k in os.environ}
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
        home = {k: self.sandbox for k in ("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR")}
        kw["env"] = {**kept, **threads, **home, "HMOE_COURSE": self.course,
                     "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}  # fmt: skip
        kw["cwd"] = self.sandbox
        return await super()._async_pre_start_kernel(**kw)

    def remove_sandbox(self) -> None:
        shutil.rmtree(self.sandbox, ignore_errors=True)


class NoAnswer(Exception):  # noqa: N818
    """The students' kernel gave no result; the message is for the feedback page."""


class TestTooLong(BaseException):
    """Not an Exception, so that no check mistakes it for a student's error."""


@contextlib.contextmanager
def processor_limit(seconds: float):
    """Stop what is inside after so much processor time of this process: an answer may be huge."""
    if not hasattr(signal, "setitimer"):  # Windows
        yield
        return

    def stop(*_):
        raise TestTooLong(f"the test computed for more than {seconds:g} seconds with this answer")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Examine(Execute):
    """nbgrader's Execute with limits, and with test cells judged outside the students' kernel."""

    call_seconds = Integer(10, help="seconds for one call of a student's function").tag(config=True)
    submission_seconds = Integer(600, help="seconds for all cells together").tag(config=True)
    patience = Integer(4, help="waits for a cell that hardly computes").tag(config=True)
    max_output = Integer(100_000, help="characters of output kept per cell").tag(config=True)

    def __init__(self, *args, **kw):
        kw.setdefault("kernel_manager_class", ConfinedKernel)
        super().__init__(*args, **kw)
        self.raise_on_iopub_timeout = False

    def preprocess(self, nb, resources, km=None):
        # The exporter's parent is nbgrader's converter, which knows the course.
        coursedir = self.parent.parent.coursedir
        self._trusted = trusted_cells(coursedir, resources["nbgrader"]["assignment"])
        self._scope: dict = {"__name__": "examiner"}
        self._dead, self._slow, self._written = "", set(), 0
        self._end = time.monotonic() + self.submission_seconds
        try:
            return super().preprocess(nb, resources, km)
        finally:
            self._kernel.remove_sandbox()

    def create_kernel_manager(self):
        self._kernel = super().create_kernel_manager()
        return self._kernel

    def preprocess_cell(self, cell, resources, index):
        if cell.cell_type != "code":
            return cell, resources
        kind, source = self._trusted.get(
            cell.metadata.get("nbgrader", {}).get("grade_id"), ("", "")
        )
        if kind == "test":
            cell.outputs, cell.execution_count = self.examine(source), None
            return cell, resources
        if kind == "setup":
            exec(compile(source, "<setup>", "exec"), self._scope)
        return self.run(cell, index, self.timeout), resources

    # ---- the students' kernel ----------------------------------------------------------------

    def run(self, cell, index: int, seconds: float):
        """Execute a cell in the students' kernel; whatever happens there ends as an output."""
        left = self._end - time.monotonic()
        if not self._dead and left <= 0:
            self.kill(f"the notebook took more than {self.submission_seconds} seconds")
        if self._dead:
            cell.outputs = [failure("KernelEnded", self._dead)]
            return cell
        self._written, self.timeout_func = 0, lambda _: max(1, int(min(seconds, left)))
        self._waits, self._busy = 0, self.processor_seconds()
        self._limit = seconds + REVIVAL_SECONDS / 5
        try:
            self.execute_cell(cell, index, store_history=False)
        except DeadKernelError:
            self._dead = "the kernel ended: too much memory or processor time, or an exit"
            cell.outputs.append(failure("KernelEnded", self._dead))
        except Exception as error:
            self.kill(f"the kernel gave no sensible reply ({type(error).__name__})")
            cell.outputs.append(failure("KernelEnded", self._dead))
        finally:
            self.timeout_func = None
        if any(out.get("ename") == "CellTimeoutError" for out in cell.outputs):
            self.revive()
        return cell

    async def _async_handle_timeout(self, timeout, cell=None):
        """Wait again if the machine was busy: what counts is the kernel's processor time."""
        self._waits += 1
        if self._waits < self.patience and self.processor_seconds() - self._busy < timeout / 2:
            return None
        return await super()._async_handle_timeout(timeout, cell)

    def processor_seconds(self) -> float:
        with contextlib.suppress(psutil.Error, AttributeError):
            return sum(psutil.Process(self.km.provisioner.pid).cpu_times()[:2])
        return 0.0

    def revive(self) -> None:
        """After an interrupt: is the kernel free again? If not, end it."""
        message, end = self.kc.kernel_info(), time.monotonic() + REVIVAL_SECONDS
        while time.monotonic() < end and self.processor_seconds() - self._busy < self._limit:
            with contextlib.suppress(queue.Empty):
                reply = run_sync(self.kc.shell_channel.get_msg)(timeout=1)
                if reply["parent_header"].get("msg_id") == message:
                    return
        self.kill("a cell ran too long and could not be interrupted")

    def kill(self, reason: str) -> None:
        self._dead = reason
        with contextlib.suppress(Exception):
            os.killpg(self.km.provisioner.pid, signal.SIGKILL)

    def process_message(self, msg, cell, cell_index):
        """Keep a bounded part of what a cell writes; read and drop the rest."""
        if msg["msg_type"] in ("stream", "display_data", "execute_result", "error"):
            answer = messages.MIME in msg["content"].get("data", {})
            before, self._written = self._written, self._written + _size(msg["content"])
            if self._written > (messages.LARGEST if answer else self.max_output):
                if before <= self.max_output:
                    text = f"\n[more than {self.max_output} characters; the rest is left out]\n"
                    cell.outputs.append(new_output("stream", name="stdout", text=text))
                return None
        return super().process_message(msg, cell, cell_index)

    def ask(self, name: str, args=None, named=None):
        """Put one question to the students' kernel and return the decoded reply."""
        if name in self._slow:
            raise NoAnswer(f"{name} took more than {self.call_seconds} seconds before")
        cell = new_code_cell(messages.question(name, args, named))
        kept = self.nb.cells[0]
        outputs = self.run(cell, 0, self.call_seconds).outputs
        self.nb.cells[0] = kept  # nbclient has put the question there
        for out in outputs:
            if out.output_type == "display_data" and messages.MIME in out.data:
                return out.data[messages.MIME]
        for out in outputs:
            if out.output_type == "error":
                if out.ename == "CellTimeoutError":
                    self._slow.add(name)
                    raise NoAnswer(f"{name} took more than {self.call_seconds} seconds")
                if out.ename == "NotImplementedError":
                    raise NotImplementedError(f"{name} is not written yet")
                raise NoAnswer(f"{name} stopped with {out.ename}: {out.evalue}")
        raise NoAnswer(f"{name} gave no answer")

    # ---- tests -------------------------------------------------------------------------------

    def examine(self, source: str) -> list:
        """Run one test cell here and return its outputs: none is full marks, an error is zero."""
        heard, scope = io.StringIO(), dict(self._scope)
        try:
            for name in sorted(unknown_names(source, scope)):
                scope[name] = self.fetch(name)
            limit = processor_limit(TEST_SECONDS)
            with warnings.catch_warnings(), contextlib.redirect_stdout(heard), limit:
                warnings.simplefilter("ignore")
                exec(compile(source, "<test>", "exec"), scope)
        except (NoAnswer, AssertionError) as error:
            line = str(error) or _failed_line(source, error)
            return [failure(type(error).__name__, line)]
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return [failure(type(error).__name__, f"{error}\n{_failed_line(source, error)}")]
        text = heard.getvalue()
        return [new_output("stream", name="stdout", text=text)] if text else []

    def fetch(self, name: str):
        """Return a student's value, or a proxy of a student's function."""
        reply = self.ask(name)
        if "missing" in reply:
            raise NoAnswer(f"there is no {name}: its cell is empty, failed, or was deleted")
        if "function" not in reply:
            return _decoded(name, reply)

        def proxy(*args, **named):
            return _decoded(name, self.ask(name, args, named))

        proxy.__name__ = name
        return proxy


def trusted_cells(coursedir, assignment: str) -> dict[str, tuple[str, str]]:
    """Map grade ids to (kind, source), as the course's own notebook has them."""
    folder = Path(coursedir.format_path(coursedir.source_directory, ".", assignment))
    found = {}
    for path in folder.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            meta = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "code" and meta.get("locked") and not meta.get("solution"):
                kind = "test" if meta.get("grade") else "setup"
                found[meta["grade_id"]] = (kind, cell.source)
    return found


def unknown_names(source: str, scope: dict) -> set[str]:
    """Global names that a test reads and that neither it nor the setup defines: the student's.

    An argument or a local variable of a function in the test may have the name of an answer.
    """
    top = symtable.symtable(source, "<test>", "exec")
    made = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    read, tables = set(), [top]
    while tables:
        table = tables.pop()
        for s in table.get_symbols():
            if s.is_referenced() and (table is top or s.is_global()):
                read.add(s.get_name())
        tables += table.get_children()
    return read - made - set(scope) - set(dir(builtins))


def failure(name: str, text: str):
    """An error output, as nbgrader counts it."""
    return new_output("error", ename=name, evalue=text[:5000], traceback=[f"{name}: {text[:5000]}"])


def _decoded(name: str, reply):
    try:
        return messages.decode(reply["value"])
    except Exception as error:
        raise NoAnswer(f"{name} sent something unreadable ({error})") from None


def _failed_line(source: str, error: BaseException) -> str:
    lines = source.splitlines()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == "<test>"]
    return f"in the line: {lines[frames[-1].lineno - 1].strip()}" if frames else ""


def _size(content: dict) -> int:
    data = content.get("data") or {}
    return (
        len(content.get("text") or "")
        + sum(len(str(value)) for value in data.values())
        + sum(len(line) for line in content.get("traceback") or ())
    )
