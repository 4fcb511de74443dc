"""The command line: ``python -m hmoe_lib.practice list | train | show``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from hmoe_lib.practice.config import VARIANTS, Config
from hmoe_lib.practice.result import load_practice
from hmoe_lib.practice.store import read_text
from hmoe_lib.practice.study import SEEDS, collect, run_practice
from hmoe_lib.practice.text import python_reference
from hmoe_lib.practice.training import NotFiniteError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status, 2 for an error that is told in one line."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (ValueError, OSError, ModuleNotFoundError, NotFiniteError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130


def _list(options: argparse.Namespace) -> int:
    for name, variant in VARIANTS.items():
        config = Config(name)
        print(f"{name:12s} {variant.shows}; {config.parameters:,} parameters")
    return 0


def _train(options: argparse.Namespace) -> int:
    text = python_reference() if options.text is None else read_text(options.text)
    config = Config()
    if options.steps is not None:
        config = replace(config, steps=options.steps)
    variants = tuple(options.variants) or tuple(VARIANTS)
    choice = {"variants": variants, "seeds": options.seeds, "config": config, "text": text}
    folder = run_practice(**choice, folder=options.folder, progress=not options.no_progress)
    print(f"finished runs are in {folder}")
    if options.out is not None:
        collect(options.out, **choice, folder=folder)
        print(f"stored {options.out / 'practice.npz'} and .json")
    return 0


def _show(options: argparse.Namespace) -> int:
    result = load_practice(options.out)
    print(f"{result.about['text']}, seeds {', '.join(map(str, result.seeds))}")
    print("validation loss in nats a byte; then its difference to 'none', paired by seed")
    for variant in result.variants:
        line = f"{variant:12s} {result.interval('validation_loss', variant)}"
        if variant != "none" and "none" in result.variants:
            line += f"   {result.difference('validation_loss', variant)}"
        print(line)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hmoe_lib.practice", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="list | train | show")
    listing = commands.add_parser("list", help="the variants")
    listing.set_defaults(command=_list)
    training = commands.add_parser("train", help="train variants, all by default; resumable")
    training.set_defaults(command=_train)
    training.add_argument("variants", nargs="*", metavar="VARIANT", help="names of the list")
    training.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), metavar="S")
    training.add_argument("--text", type=Path, metavar="FILE", help="a UTF-8 file of your own")
    training.add_argument("--steps", type=int, metavar="N", help="steps of each run")
    training.add_argument("--folder", type=Path, metavar="DIR", help="of checkpoints and runs")
    training.add_argument("--out", type=Path, metavar="DIR", help="store the whole study here")
    training.add_argument("--no-progress", action="store_true", help="no progress bar")
    showing = commands.add_parser("show", help="losses of a stored study, with intervals")
    showing.set_defaults(command=_show)
    showing.add_argument("--out", type=Path, default=Path("book/results"), metavar="DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
