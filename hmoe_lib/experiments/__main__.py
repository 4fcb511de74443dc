"""The command line: ``python -m hmoe_lib.experiments list | run NAME | show NAME``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from hmoe_lib.experiments import store
from hmoe_lib.experiments.catalogue import EXPERIMENTS, get
from hmoe_lib.experiments.density_catalogue import STUDIES, load_study, run_study
from hmoe_lib.experiments.journal import cache_folder
from hmoe_lib.experiments.rates import FEWEST_SIZES
from hmoe_lib.experiments.result import ExperimentResult
from hmoe_lib.experiments.runner import SPREADS, run


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status, 2 for an error that is told in one line."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from the finished replicates", file=sys.stderr)
        return 130


def _list(options: argparse.Namespace) -> int:
    for name, experiment in EXPERIMENTS.items():
        quick = experiment.quick()
        print(name)
        print(f"  shows   {experiment.title}")
        print(f"  panels  {', '.join(panel.name for panel in experiment.panels)}")
        print(
            f"  sizes   {', '.join(map(str, experiment.sizes))}; {experiment.replicates} runs each"
        )
        print(
            f"  cost    about {_time(experiment.core_seconds)} of one core; "
            f"--quick {_time(quick.core_seconds)}"
        )
    for name, study in STUDIES.items():
        print(f"{name}\n  sizes   {', '.join(map(str, study.sizes))}; {study.runs} runs each")
    return 0


def _run(options: argparse.Namespace) -> int:
    began = time.perf_counter()
    folder = options.out or cache_folder() / "results"
    if options.name in STUDIES:  # likelihood: one process, no other options
        _print_study(run_study(options.name, folder))
        print(f"stored   {folder / f'study-{options.name}.npz'} and .json")
        return 0
    result = run(
        options.name,
        quick=options.quick,
        jobs=options.jobs,
        progress=not options.no_progress,
        store=folder,
        resume=not options.restart,
        panels=options.panel,
        scheduler=options.scheduler,
        spread=options.spread,
    )
    _print(result)
    where = f"on {options.scheduler}" if options.scheduler else f"with {options.jobs} workers"
    print(f"time     {_time(time.perf_counter() - began)} {where}")
    print(f"stored   {folder / result.config.stem}.npz and .json")
    return 0


def _show(options: argparse.Namespace) -> int:
    folder = options.out or cache_folder() / "results"
    if options.name in STUDIES:
        _print_study(load_study(options.name, folder))
        return 0
    expected = get(options.name).select(options.panel)
    _print(store.load(expected.quick() if options.quick else expected, folder))
    return 0


def _print(result: ExperimentResult) -> None:
    print(result)
    print(f"config   {result.config.hash()[:16]}   digest {result.digest()[:16]}")
    print(f"date     {result.date}   work {_time(result.seconds.sum())} of one core")
    if len(result.config.sizes) >= FEWEST_SIZES:
        print(result.slopes())


def _print_study(result) -> None:
    print(f"{result.study.name}: work {_time(result.cpu_seconds)} of one core; slopes")
    for field, values in result.values.items():
        if (values > 0).all() and (values.max(axis=1) > values.min(axis=1)).all():
            slopes = [f"{name} {result.slope(field, name)}" for name in ("mean", "median")]
            print(f"  {field:12} {'  '.join(slopes)}")


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hmoe_lib.experiments", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="list | run | show")
    listing = commands.add_parser("list", help="what can be run, what it shows, what it costs")
    listing.set_defaults(command=_list)
    running = commands.add_parser("run", help="run an experiment, print its slopes, store it")
    running.set_defaults(command=_run)
    showing = commands.add_parser("show", help="print the slopes of a stored result")
    showing.set_defaults(command=_show)
    for command in (running, showing):
        command.add_argument("name", metavar="NAME", help="an experiment of the list")
        command.add_argument("--quick", action="store_true", help="the coarse version")
        command.add_argument(
            "--panel", action="append", metavar="P", help="this panel only; may be repeated"
        )
        command.add_argument(
            "--out",
            type=Path,
            metavar="DIR",
            help="folder of the stored result (by default results in the folder of the cache)",
        )
    running.add_argument("--jobs", type=int, default=2, metavar="N", help="workers (default 2)")
    running.add_argument(
        "--scheduler", metavar="ADDRESS", help="compute on the workers of this Dask scheduler"
    )
    running.add_argument(
        "--spread", choices=SPREADS, default=SPREADS[0], help="what workers share (replicates)"
    )
    running.add_argument("--no-progress", action="store_true", help="no progress bar")
    running.add_argument(
        "--restart", action="store_true", help="forget the replicates of a stopped run"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
