"""The command: ``python -m hmoe_lib.identifiability "EXPR" --condition listed --dim 2``.

With ``--gate G --expert E`` it decides a cell of the atlas, with ``--atlas`` it makes the whole.
Exit status: 0 the condition holds (a cell is harmless), 1 it fails, 2 the input was refused, 3
undecided.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hmoe_lib.identifiability.atlas import atlas, atom_verdict
from hmoe_lib.identifiability.atom_contact import cell_contacts
from hmoe_lib.identifiability.atoms import EXPERTS, GATES
from hmoe_lib.identifiability.export import (
    atlas_for_page,
    atlas_table,
    atlas_to_dict,
    cell_to_dict,
)
from hmoe_lib.identifiability.verdict import CONDITIONS, SETTINGS, verdict

STATUS = {True: 0, False: 1, None: 3}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.atlas or options.gate is not None or options.expert is not None:
            return _atlas(options)
        if options.phi is None:
            raise ValueError("EXPR: expected an activation, or --gate and --expert, or --atlas")
        atoms = None if options.atoms is None else _read(options.atoms)
        v = verdict(options.phi, options.dim, options.condition, options.setting, atoms)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    print(json.dumps(v.to_dict(), indent=1) if options.json else v)
    return STATUS[v.strongly_identifiable]


def _atlas(options) -> int:
    if options.atlas:
        cells = atlas()
        contacts = {(v.gate, v.expert): cell_contacts(v) for v in cells if options.contacts}
        data = atlas_to_dict(cells, contacts)
        small = json.dumps(atlas_for_page(data), separators=(",", ":"))
        print(small if options.page else json.dumps(data) if options.json else atlas_table(data))
        return 0
    if options.gate is None or options.expert is None:
        raise ValueError("expected both --gate and --expert")
    v = atom_verdict(options.gate, options.expert)
    print(json.dumps(cell_to_dict(v), indent=1) if options.json else v)
    return STATUS[None if v.order is None else v.word == "harmless"]


def _read(name: str):
    text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf8")
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"atoms: expected JSON, got {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hmoe_lib.identifiability",
        description="Strong identifiability of an activation: relations, proofs, certificate.",
        epilog="Exit status: 0 the condition holds, 1 it fails, 2 refused, 3 undecided.",
    )
    parser.add_argument(
        "phi", metavar="EXPR", nargs="?", help="an expression in z, or a name such as gelu"
    )
    parser.add_argument("--gate", help=f"a score in x1, x2, x3, or one of {', '.join(GATES)}")
    parser.add_argument("--expert", help=f"a formula, or one of {', '.join(EXPERTS)}")
    parser.add_argument("--atlas", action="store_true", help="every gate by every expert")
    parser.add_argument("--contacts", action="store_true", help="measure orders of contact too")
    parser.add_argument("--page", action="store_true", help="the atlas as small data for a page")
    parser.add_argument("--condition", choices=CONDITIONS, default="listed")
    parser.add_argument("--setting", choices=SETTINGS, default="I")
    parser.add_argument("--dim", type=int, default=2, metavar="D")
    parser.add_argument(
        "--atoms",
        metavar="FILE",
        help='JSON: a list of {"M": ..., "a": ...}, or {"omega": ..., "M": ..., "a": ...}; '
        "- reads standard input",
    )
    parser.add_argument("--json", action="store_true", help="plain data, certificate included")
    return parser


if __name__ == "__main__":
    sys.exit(main())
