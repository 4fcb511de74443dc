"""A Dask cluster: the same bits, with workers lost in the middle, resumed without the scheduler."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from hmoe_lib.experiments import get, run, runner
from hmoe_lib.experiments.__main__ import main
from hmoe_lib.experiments.engine import Engine, LostWorkerError
from hmoe_lib.experiments.journal import Journal

pytest.importorskip(
    "distributed", reason="Dask is not installed, the cluster is not tested: requirements.txt"
)
FIGURE1 = get("figure1")
TINY = replace(
    FIGURE1.select(["mha-K3", "value-K3"]), name="tiny", sizes=(200, 300), replicates=2, grid=8
)
# More than one part of 64 blocks, so that the blocks of one fit are shared.
STREAMED = replace(
    TINY.select("mha-K3"), name="streamed", sizes=(400_000,), replicates=1, streamed=True
)


class Cluster:
    """A scheduler and workers in processes of their own, each of which can be killed."""

    def __init__(self, folder, workers=2):
        self.file = folder / "scheduler.json"
        dashboard = ("--no-dashboard", "--host", "127.0.0.1")
        self.scheduler = _start(
            "scheduler", "--scheduler-file", self.file, "--port", "0", *dashboard
        )
        while not self.file.exists() or not self.file.read_text():
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]
        single = ("--nthreads", "1", "--no-nanny", "--local-directory", folder)
        self.workers = [_start("worker", self.address, *single, *dashboard) for _ in range(workers)]

    def stop(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def _start(program, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("HMOE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A cluster that no test breaks."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(tmp_path):
    """A cluster to break."""
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.stop()


def here(config):
    return run(config, jobs=1, progress=False)


def test_replicates_on_a_cluster_have_the_same_bits(shared):
    away = run(TINY, scheduler=shared.address, progress=False)
    assert away.digest() == here(TINY).digest()


def test_the_work_is_done_by_the_workers_of_the_cluster(shared):
    with Engine(scheduler=shared.address) as engine:
        seen = set(engine.unordered(os.getpid, [()] * 50))
    assert seen <= {worker.pid for worker in shared.workers}
    assert len(seen) == 2


def test_the_blocks_of_one_fit_on_a_cluster_and_in_processes_have_the_same_bits(shared):
    alone = here(STREAMED).digest()
    away = run(STREAMED, scheduler=shared.address, spread="blocks", progress=False)
    assert away.digest() == alone
    assert run(STREAMED, jobs=2, spread="blocks", progress=False).digest() == alone


def after(records, action, monkeypatch):
    """Act once when so many records have arrived."""
    honest, arrived = Journal.append, []

    def append(self, record):
        honest(self, record)
        arrived.append(record)
        if len(arrived) == records:
            action()

    monkeypatch.setattr(Journal, "append", append)


def test_a_worker_lost_in_the_middle_changes_nothing(cluster, monkeypatch):
    after(2, cluster.workers[0].kill, monkeypatch)
    away = run(TINY, scheduler=cluster.address, progress=False)
    assert cluster.workers[0].wait() != 0
    assert away.digest() == here(TINY).digest()


def test_a_worker_lost_in_the_middle_of_a_fit_changes_nothing(cluster, monkeypatch):
    honest, passes = Engine.map, []

    def killing(self, function, items):
        passes.append(function)
        if len(passes) == 2:
            cluster.workers[0].kill()
        return honest(self, function, items)

    monkeypatch.setattr(Engine, "map", killing)
    away = run(STREAMED, scheduler=cluster.address, spread="blocks", progress=False)
    assert len(passes) > 2
    assert away.digest() == here(STREAMED).digest()


def test_a_task_that_kills_its_workers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    cluster = Cluster(tmp_path, workers=1)
    try:
        with (
            Engine(scheduler=cluster.address) as engine,
            pytest.raises(LostWorkerError, match="killed again and again"),
        ):
            list(engine.unordered(os._exit, [(1,)]))
    finally:
        cluster.stop()


def test_a_lost_scheduler_is_named_and_the_run_resumes_without_it(cluster, monkeypatch):
    whole = here(TINY)
    after(2, cluster.scheduler.kill, monkeypatch)
    with pytest.raises(LostWorkerError, match=r"scheduler tcp://.* was lost; .* are kept"):
        run(TINY, scheduler=cluster.address, progress=False)
    kept = len(Journal(TINY).records())
    assert 2 <= kept < 8
    computed, honest = [], runner.replicate
    monkeypatch.setattr(
        runner, "replicate", lambda config, *key: computed.append(key) or honest(config, *key)
    )
    assert here(TINY).digest() == whole.digest()
    assert len(computed) == 8 - kept


def test_a_worker_with_other_code_is_refused(shared, monkeypatch):
    """Negative control of the bits: another version may compute others."""
    other = {**runner.versions(), "numpy": "0.0"}
    monkeypatch.setattr("hmoe_lib.experiments.engine.versions", lambda: other)
    with pytest.raises(ValueError, match=r"worker: expected the versions {'numpy': '0.0'}, got"):
        run(TINY, scheduler=shared.address, progress=False)


def test_the_command_line_takes_a_scheduler_and_says_when_none_answers(shared, capsys, folder):
    command = ["run", "figure1", "--quick", "--panel", "mha-K3", "--no-progress"]
    assert main([*command, "--out", str(folder), "--scheduler", shared.address]) == 0
    assert f"on {shared.address}" in capsys.readouterr().out
    assert main([*command, "--scheduler", "tcp://127.0.0.1:1"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: scheduler tcp://127.0.0.1:1 does not answer")
    assert printed.count("\n") == 1
