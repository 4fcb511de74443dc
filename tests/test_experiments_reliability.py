"""What goes wrong around a run: nothing is lost, the message is clear, the end is the same."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import Optimiser, get, load, run, runner, store
from hmoe_lib.experiments import journal as journals
from hmoe_lib.experiments.__main__ import main
from hmoe_lib.experiments.engine import Engine, LostWorkerError
from hmoe_lib.experiments.journal import BusyError, Journal

TINY = replace(
    get("figure1").select(["mha-K3", "value-K3"]), name="tiny", variant="full",
    sizes=(200, 300), replicates=2,
    grid=8,
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("HMOE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results"


def quiet(config=TINY, **options):
    return run(config, **{"jobs": 1, "progress": False, **options})


# ---- killed workers ------------------------------------------------------------------------------

DEADLY = """
import os, sys
from pathlib import Path
from dataclasses import replace
sys.path.insert(0, sys.argv[1])
import test_experiments_reliability as tests
from hmoe_lib.experiments import runner

mark, honest = Path(sys.argv[2]), runner.replicate

def deadly(config, panel, n, number):
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), 9)
    return honest(config, panel, n, number)

runner.replicate = deadly
print(runner.run(tests.TINY, jobs=2, progress=False).digest())
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_worker_process_killed_in_the_middle_changes_nothing(tmp_path):
    command = [sys.executable, "-c", DEADLY, os.path.dirname(__file__), str(tmp_path / "killed")]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (tmp_path / "killed").exists(), out.stderr
    assert out.stdout.strip() == quiet().digest(), out.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_workers_killed_again_and_again_end_the_run_with_a_word():
    with Engine(jobs=2) as engine, pytest.raises(LostWorkerError, match="again and again"):
        list(engine.unordered(os._exit, [(1,), (1,)]))


# ---- the disk ------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.name == "nt" or os.geteuid() != 0:
        pytest.skip("a full disk is tested by root only, who may mount a small one")
    command = [mount, "-t", "tmpfs", "-o", "size=512k,nr_inodes=200", "tmpfs", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a full disk is not tested: no tmpfs can be mounted ({done.stderr.strip()})")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def filled(disk, leave):
    """Fill a disk but for some bytes; return the file that does."""
    ballast = disk / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC
    with open(ballast, "r+b") as file:
        file.truncate(max(ballast.stat().st_size - leave, 0) // 4096 * 4096)
    return ballast


def test_a_full_disk_loses_no_finished_replicate(small_disk, monkeypatch, capsys):
    whole = quiet()
    monkeypatch.setenv("HMOE_CACHE", str(small_disk))
    Journal(TINY)  # the folders
    ballast = filled(small_disk, leave=8192)
    monkeypatch.setitem(get.__globals__["EXPERIMENTS"], "tiny", TINY)
    assert main(["run", "tiny", "--jobs", "1", "--no-progress"]) == 2
    printed = capsys.readouterr().err
    assert "No space left on device" in printed and printed.count("\n") == 1
    ballast.unlink()
    kept = len(Journal(TINY).records())
    assert 1 <= kept < 8
    computed, honest = [], runner.replicate
    monkeypatch.setattr(
        runner, "replicate", lambda config, *key: computed.append(key) or honest(config, *key)
    )
    assert quiet().digest() == whole.digest()
    assert len(computed) == 8 - kept


def test_a_disk_that_fills_while_the_result_is_stored_keeps_the_work(small_disk, monkeypatch):
    whole = quiet()
    filled(small_disk, leave=0)
    with pytest.raises(OSError, match="No space left on device"):
        quiet(store=small_disk)
    assert not [path for path in small_disk.iterdir() if path.name != "ballast"]
    monkeypatch.setattr(runner, "replicate", None)  # nothing is left to compute
    (small_disk / "ballast").unlink()
    assert quiet(store=small_disk).digest() == whole.digest()
    assert load("tiny", small_disk, TINY).digest() == whole.digest()


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_computed(folder, monkeypatch):
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file where a folder should be")
    monkeypatch.setattr(runner, "replicate", None)
    with pytest.raises(OSError, match="results"):
        quiet(store=folder)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes everywhere")
def test_an_unwritable_folder_is_named_before_anything_is_computed(folder, monkeypatch):
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    monkeypatch.setattr(runner, "replicate", None)
    with pytest.raises(PermissionError, match="results cannot be written"):
        quiet(store=folder)


def test_an_unwritable_folder_is_named_even_to_root(folder, monkeypatch):
    """Root passes every permission: the check itself is made to fail."""
    monkeypatch.setattr(journals.os, "access", lambda path, mode: Path(path) != folder)
    monkeypatch.setattr(runner, "replicate", None)
    with pytest.raises(PermissionError, match="results cannot be written"):
        quiet(store=folder)


@pytest.mark.parametrize("size", [0, 1, 100, 5000])
def test_a_store_cut_short_is_refused_and_run_again(folder, size):
    whole = quiet(store=folder)
    path = folder / "tiny.npz"
    os.truncate(path, min(size, path.stat().st_size - 1))
    with pytest.raises(store.DamagedResultError, match="is not the file that was written"):
        load("tiny", folder, TINY)
    assert quiet(store=folder).digest() == whole.digest()
    assert load("tiny", folder, TINY).digest() == whole.digest()


# ---- two runs at once ----------------------------------------------------------------------------

HOLDING = """
import sys, time
sys.path.insert(0, sys.argv[1])
import test_experiments_reliability as tests
with tests.Journal(tests.TINY).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder():
    """Another process in the middle of the same run."""
    command = [sys.executable, "-c", HOLDING, os.path.dirname(__file__)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


needs_locks = pytest.mark.skipif(journals.fcntl is None, reason="no locks on this system")


@needs_locks
def test_a_second_run_says_who_is_at_work(holder, monkeypatch):
    monkeypatch.setattr(runner, "replicate", None)
    with pytest.raises(BusyError, match=rf"another process \({holder.pid}\) runs this"):
        quiet()


@needs_locks
def test_the_lock_of_a_killed_process_is_free(holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert len(quiet().rows) == 8
    assert not list(Journal(TINY).path.parent.iterdir())


@needs_locks
def test_who_wants_a_cached_result_waits_for_the_run_that_computes_it(holder):
    command = [sys.executable, "-c", CACHED, os.path.dirname(__file__)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        while "waiting" not in waiting.stdout.readline():
            pass
        time.sleep(0.5)
        assert waiting.poll() is None
        holder.stdin.close()
        digest = waiting.communicate(timeout=60)[0].strip()
    assert digest == quiet(resume=False).digest()


CACHED = """
import sys
sys.path.insert(0, sys.argv[1])
import test_experiments_reliability as tests
print("waiting", flush=True)
print(tests.quiet(cache=True).digest())
"""


@needs_locks
def test_two_runs_of_different_experiments_do_not_wait(holder):
    assert len(quiet(replace(TINY, name="other")).rows) == 8


# ---- a replicate that diverges -------------------------------------------------------------------


def test_a_replicate_that_diverges_is_a_row_and_the_others_are_untouched():
    """A start of size 1e200 with an unbounded box: the loss overflows before the first step."""
    far = replace(
        TINY.panel("value-K3"),
        name="far",
        activation="power3",
        bias=0.0,
        start=replace(TINY.panel("value-K3").start, constant=1e200),
        optimiser=Optimiser("gradient_descent", box=None),
    )
    both = quiet(replace(TINY, panels=[*TINY.panels, far]))
    assert set(both.panel("far")["status"]) == {"diverged"}
    alone = quiet()
    for panel in TINY.panels:
        assert np.array_equal(both.panel(panel.name), alone.panel(panel.name))
