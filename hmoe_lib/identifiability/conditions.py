r"""The conditions as families: type-1 and type-2 as the paper prints them, sharp, and model.

Notes
-----
With :math:`\bar u(x; M, a) = e^{x^\top M x}\varphi(a^\top x)`, type-1 lists all derivatives of
order at most 2 at the atoms. *Sharp* leaves out the second derivatives in M: only split atoms
need them, and their gates are shared. For Setting II, sharp is the repaired type-2: M of the
pinned expert is not differentiated, and of the second order only the pure squares stay. *Model*
lists derivatives of the regression function itself, normalisers included.

References
----------
Definitions 1 and 2 of the paper (type-1, type-2); sharp and model are ours.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import NamedTuple

import sympy

from hmoe_lib.identifiability.families import (
    Definition,
    Family,
    Listed,
    by_order,
    inputs,
    label,
    linear,
    of_order,
    quadratic,
    rational,
    single,
    total,
    upper,
    values,
)
from hmoe_lib.identifiability.parsing import Phi, real
from hmoe_lib.identifiability.truths import Atom, Truth

__all__ = [
    "family",
    "first_order",
    "layout",
    "model",
    "named",
    "sharp",
    "type_1",
    "type_2",
    "type_2_repaired",
]


def _open(t: sympy.Expr) -> sympy.Expr:
    return Phi(sympy.Integer(0), t)


# ---- Setting I: numerators -------------------------------------------------------------------


def _numerators(atoms: list[Atom], keep, name: str) -> Family:
    d = len(atoms[0][1])
    x = inputs(d)
    (q, M_names), (t, a_names) = quadratic("M", x), linear("a", x)
    definitions, listed = {}, []
    for j, (M, a) in enumerate(atoms, start=1):
        definitions[f"u{j}"] = Definition(sympy.exp(q) * _open(t), values(M_names, M, a_names, a))
        listed += [single(f"u{j}", by) for by in of_order(2, [*M_names, *a_names]) if keep(by)]
    return Family(name, x, definitions, by_order(listed))


def type_1(atoms: list[Atom]) -> Family:
    """All derivatives of order at most 2 of exp(x^T M x) phi(a^T x), as the paper lists them."""
    return _numerators(atoms, lambda by: True, "type-1 as listed")


def first_order(atoms: list[Atom]) -> Family:
    """Values and first derivatives only."""
    return _numerators(atoms, lambda by: len(by) < 2, "type-1, order 1")


def sharp(atoms: list[Atom]) -> Family:
    """Values, first derivatives and second derivatives in a."""
    return _numerators(
        atoms,
        lambda by: len(by) < 2 or all(p.startswith("a") for p in by),
        "sharp: second derivatives in a only",
    )


# ---- Setting II: numerators ------------------------------------------------------------------


def _channel(truth: Truth, h: int, k: int, x) -> tuple[dict, sympy.Expr, sympy.Expr]:
    """Definitions u_i, v_i of a channel, its function f* and its normaliser E*."""
    N = truth.shape[1]
    definitions, names = {}, {}
    (q, M_names), (t, a_names) = quadratic("M", x), linear("a", x)
    at = [values(M_names, truth.M[h][i], a_names, truth.a[h][i][k]) for i in range(N)]
    gates = [sympy.exp(q.subs(v)) for v in at]
    E = total(gates)
    f = total(g * t.subs(v) for g, v in zip(gates, at, strict=True)) / E
    tag = f"{h + 1}{k + 1}"
    for i in range(N):
        u, v = f"u{i + 1}[{tag}]", f"v{i + 1}[{tag}]"
        definitions[u] = Definition(sympy.exp(q) * t, at[i])
        only_M = {s: value for s, value in at[i].items() if s.name in M_names}
        definitions[v] = Definition(sympy.exp(q) * f, only_M)
        names[u], names[v] = (M_names, a_names), (M_names, [])
    s = real("s")
    for order in range(3):
        key = f"phi{order}[{tag}]"
        definitions[key] = Definition(_open(f + s) / E**order, {s: sympy.Integer(0)})
    return {"definitions": definitions, "names": names, "tag": tag}, f, E


def _products(channel: dict, kind: str, free: list[int], pure_only: bool) -> list[Listed]:
    """Products of two first derivatives of u (or v) times phi''(f*)/E*^2."""
    tag = channel["tag"]
    first = []
    for i in free if kind == "v" else range(channel["N"]):
        name = f"{kind}{i + 1}[{tag}]"
        M_names, a_names = channel["names"][name]
        by_M = M_names if i in free else []
        first += [(name, p) for p in [*by_M, *a_names]]
    listed = []
    for (n1, p1), (n2, p2) in itertools.combinations_with_replacement(first, 2):
        same = (n1, p1) == (n2, p2)
        if pure_only and not same:
            continue
        text = f"({label(n1, (p1,))}) ({label(n2, (p2,))}) phi''/E^2"
        factors = ((n1, (p1,)), (n2, (p2,)), (f"phi2[{tag}]", ("s", "s")))
        listed.append(Listed(text, factors, f"{kind}{kind}[{tag}]", (f"{n1}.{p1}", f"{n2}.{p2}")))
    return listed


def _first_group(channel: dict, kind: str, free: list[int], pure_only: bool) -> list[Listed]:
    """Derivatives of v (in M) or of u (never twice in a) times phi'(f*)/E*."""
    tag = channel["tag"]
    listed = []
    for i in free if kind == "v" else range(channel["N"]):
        name = f"{kind}{i + 1}[{tag}]"
        M_names, a_names = channel["names"][name]
        by_M = M_names if i in free else []
        for by in of_order(2, [*by_M, *a_names]):
            twice_in_a = len(by) == 2 and all(p.startswith("a") for p in by)
            mixed = len(by) == 2 and by[0] != by[1]
            if not by or twice_in_a or (pure_only and mixed):
                continue
            text = f"({label(name, by)}) phi'/E"
            listed.append(Listed(text, ((name, by), (f"phi1[{tag}]", ("s",))), name, by))
    return listed


def _type_2(truth: Truth, repaired: bool) -> Family:
    H, N, K, d = truth.shape
    x = inputs(d)
    definitions, listed = {}, []
    # In equation (ii) to (v) the printed list differentiates every M_i; the repair pins the last.
    free = list(range(N - 1 if repaired else N))
    for h, k in itertools.product(range(H), range(K)):
        channel, _, _ = _channel(truth, h, k, x)
        channel["N"] = N
        definitions |= channel["definitions"]
        tag = channel["tag"]
        listed.append(Listed(f"phi(f[{tag}])", ((f"phi0[{tag}]", ()),), f"phi[{tag}]", ()))
        for kind in "vu":
            listed += _first_group(channel, kind, free, repaired)
        for kind in "uv":
            listed += _products(channel, kind, free, repaired)
    name = "type-2 repaired: pinned M fixed, pure squares" if repaired else "type-2 as printed"
    return Family(name, x, definitions, by_order(listed))


def type_2(truth: Truth) -> Family:
    """The five groups of type-2 as the paper prints them."""
    return _type_2(truth, repaired=False)


def type_2_repaired(truth: Truth) -> Family:
    """Type-2 without the derivatives of the pinned M and without mixed second derivatives."""
    return _type_2(truth, repaired=True)


# ---- the regression function itself ----------------------------------------------------------


class Layout(NamedTuple):
    """The regression function g with named parameters, and how they group."""

    g: sympy.Expr
    first: list[str]
    groups: list[list[str]]


@lru_cache(maxsize=32)
def layout(shape: tuple[int, int, int, int], setting: str) -> Layout:
    """Return g for the sizes (H, N, K, d), in the names of :func:`named`."""
    H, N, K, d = shape
    x = inputs(d)
    first, groups, heads = [], [], []
    for h in range(H):
        free = [quadratic(f"M{h + 1}{i + 1}_", x) for i in range(N - 1)]
        gates = [*(sympy.exp(q) for q, _ in free), sympy.Integer(1)]
        first += [name for _, names in free for name in names]
        for k in range(K):
            omega = real(f"omega{h + 1}{k + 1}")
            experts = [linear(f"a{h + 1}{i + 1}{k + 1}_", x) for i in range(N)]
            vectors = [names for _, names in experts]
            first += [omega.name, *(n for names in vectors for n in names)]
            inner = [_open(t) if setting == "I" else t for t, _ in experts]
            f = total(s * e for s, e in zip(gates, inner, strict=True)) / total(gates)
            heads.append(omega * (_open(f) if setting == "II" else f))
            groups += vectors if setting == "I" else [[n for names in vectors for n in names]]
    return Layout(total(heads), first, groups)


def named(truth: Truth) -> dict[sympy.Symbol, sympy.Rational]:
    """Return the free parameters of a truth by name."""
    H, N, K, _ = truth.shape
    at = {}
    for h in range(H):
        for i in range(N - 1):
            at |= upper(quadratic(f"M{h + 1}{i + 1}_", truth.a[h][i][0])[1], truth.M[h][i])
        for k in range(K):
            at[real(f"omega{h + 1}{k + 1}")] = rational(truth.omega[h][k])
            for i in range(N):
                names = linear(f"a{h + 1}{i + 1}{k + 1}_", truth.a[h][i][k])[1]
                at |= {real(n): rational(v) for n, v in zip(names, truth.a[h][i][k], strict=True)}
    return at


def model(truth: Truth, setting: str = "I") -> Family:
    """Derivatives of g at a truth: in omega, M and a, and the second ones in the atoms' vectors.

    Setting I splits one expert at a time, so second derivatives stay within one a[h, i, k];
    in Setting II the experts of a channel meet inside phi, and so do their second derivatives.
    """
    g, first, groups = layout(truth.shape, setting)
    used = [single("g", (p,)) for p in first]
    for group in groups:
        for by in itertools.combinations_with_replacement(group, 2):
            used.append(Listed(label("g", by), (("g", by),), f"g:{group[0]}", by))
    definitions = {"g": Definition(g, named(truth))}
    name = f"model, Setting {setting}"
    return Family(name, inputs(truth.shape[3]), definitions, by_order(used))


def family(condition: str, setting: str, place) -> Family:
    """Return the family of a condition; ``place`` is a list of atoms or a truth, as needed."""
    builders = {
        ("listed", "I"): type_1,
        ("sharp", "I"): sharp,
        ("listed", "II"): type_2,
        ("sharp", "II"): type_2_repaired,
        ("model", "I"): lambda truth: model(truth, "I"),
        ("model", "II"): lambda truth: model(truth, "II"),
    }
    return builders[condition, setting](place)
