"""Where the work of a run is done: in this process, in processes beside it, or on a cluster.

With the runner the only module that starts processes or talks to other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from functools import lru_cache, partial

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

from hmoe_lib.experiments.checks import integer
from hmoe_lib.experiments.versions import versions

__all__ = ["Engine", "LostWorkerError", "one_thread"]

ATTEMPTS = 3  # workers lost in a row, without a result in between, before a run gives up


class LostWorkerError(OSError):
    """Workers, or the scheduler of a cluster, were lost; the finished replicates are kept."""


class Engine:
    """Computes tasks: here, in joblib's processes, or on the workers of a Dask cluster.

    Parameters
    ----------
    jobs : int, default 1
        Worker processes, at least 1; 1 computes here. A cluster uses all of its workers instead.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``.

    Raises
    ------
    ValueError
        For jobs < 1, and for a scheduler where Dask is not installed.
    OSError
        If the scheduler does not answer.

    Notes
    -----
    A worker that is lost costs its unfinished tasks, which are computed again by others: no task
    leaves anything behind but its result. Each task computes with one BLAS thread, and a worker of
    a cluster whose code or versions are not ours refuses to work: its bits could be others.

    Examples
    --------
    >>> with Engine() as engine:
    ...     list(engine.map(abs, [-1, 2])), list(engine.unordered(pow, [(2, 3)]))
    ([1, 2], [8])
    """

    def __init__(self, jobs: int = 1, scheduler: str | None = None) -> None:
        integer("jobs", jobs, least=1)
        self.jobs, self.scheduler, self._client = jobs, scheduler, None

    def __enter__(self) -> Engine:
        if self.scheduler is not None:
            self._client = _client(self.scheduler)
        return self

    def __exit__(self, *_) -> None:
        if self._client is not None:
            self._client.close()

    def map(self, function: Callable, items: Iterable) -> Iterator:
        """Yield function(item) in the order of the items."""
        early, expected = {}, 0
        for index, result in self._results(function, [(item,) for item in items], "generator"):
            early[index] = result
            while expected in early:
                yield early.pop(expected)
                expected += 1

    def unordered(self, function: Callable, tasks: Iterable[tuple]) -> Iterator:
        """Yield ``function(*task)`` for every task, in the order in which they are finished."""
        for _, result in self._results(function, list(tasks), "generator_unordered"):
            yield result

    def _results(self, function: Callable, tasks: list[tuple], order: str) -> Iterator:
        """Yield (index, result), as they come."""
        if self._client is not None:
            yield from self._from_cluster(function, tasks)
        elif min(self.jobs, len(tasks)) <= 1:
            for index, task in enumerate(tasks):
                yield index, one_thread(function, *task)
        else:
            yield from self._from_processes(function, tasks, order)

    def _from_processes(self, function: Callable, tasks: list[tuple], order: str) -> Iterator:
        left, lost = dict(enumerate(tasks)), 0
        while left:
            parallel = Parallel(n_jobs=min(self.jobs, len(left)), return_as=order, batch_size=1)
            work = [delayed(_numbered)(index, function, task) for index, task in left.items()]
            try:
                for index, result in parallel(work):
                    lost = 0
                    del left[index]
                    yield index, result
            except BrokenExecutor:
                lost += 1
                if lost == ATTEMPTS:
                    raise LostWorkerError(_LOST) from None

    def _from_cluster(self, function: Callable, tasks: list[tuple]) -> Iterator:
        # Not by joblib's backend for Dask: it waits for ever for a task whose workers were killed.
        from distributed import as_completed
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        submit = partial(self._client.submit, _as_here, versions(), function, pure=False)
        index = {submit(*task): at for at, task in enumerate(tasks)}
        try:
            for future in as_completed(list(index), loop=self._client.loop):
                yield index.pop(future), future.result()
        except KilledWorker:
            raise LostWorkerError(_LOST) from None
        except (FutureCancelledError, CommClosedError):
            raise LostWorkerError(
                f"the scheduler {self.scheduler} was lost; the finished replicates are kept, and "
                "the same call goes on from them"
            ) from None
        finally:
            for future in index:
                future.release()


_LOST = (
    "workers were killed again and again, perhaps for want of memory; the finished replicates are "
    "kept, and the same call goes on from them"
)


def one_thread(function: Callable, *arguments):
    """Return function(*arguments), computed with one BLAS thread: its sums depend on that."""
    with _blas().limit(limits=1, user_api="blas"):
        return function(*arguments)


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _numbered(index: int, function: Callable, task: tuple) -> tuple[int, object]:
    return index, one_thread(function, *task)


def _as_here(expected: dict, function: Callable, *arguments):
    """Compute on a worker of a cluster, if its code and versions are those of the caller."""
    other = {name: found for name, found in versions().items() if expected[name] != found}
    if other:
        ours = {name: expected[name] for name in other}
        raise ValueError(f"worker: expected the versions {ours}, got {other}")
    return one_thread(function, *arguments)


def _client(scheduler: str):
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "scheduler: expected an installed dask, got none; pip install 'hmoe-lib[cluster]'"
        ) from None
    try:
        return Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OSError(f"scheduler {scheduler} does not answer ({error})") from None
