r"""Identities and series behind orders of contact, proved with sympy.

A split of the truth is a family of parameters in ``delta``. If the function does not change at
all, the order of contact is infinite. If it changes like :math:`\delta^m`, then
:math:`F(\delta) \le C\delta^m`; the matching lower bound is what the model condition gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from hmoe_lib.identifiability import conditions
from hmoe_lib.identifiability.admission import admit
from hmoe_lib.identifiability.families import insert, rational
from hmoe_lib.identifiability.kernels import is_zero
from hmoe_lib.identifiability.parsing import Z, parse, parse_activation, real
from hmoe_lib.identifiability.truths import Truth, generic_truth, read_truth
from hmoe_lib.identifiability.verdict import verdict

__all__ = [
    "DELTA",
    "Identity",
    "homogeneous_split",
    "plain_split",
    "prove_identity",
    "split_series",
]

DELTA = real("delta")
HIGHEST = 6


@dataclass(frozen=True)
class Identity:
    """g at a split in delta equals g at the truth, for every delta; proved or not."""

    statement: str
    proved: bool


def _read(truth) -> Truth:
    """Read a truth of whatever dimension its vectors have."""
    if isinstance(truth, Truth):
        return truth
    a = truth["a"] if isinstance(truth, dict) else truth.a
    return read_truth(truth, len(a[0][0][0]))


def plain_split(truth, h: int = 0, i: int = 0, k: int = 0, p: int = 0) -> dict:
    """Return the split of one channel: weights halved, a[h, i, k, p] at plus and minus delta.

    Other heads repeat their channel k with halved weights, so that all heads keep one size. The
    truth is a HierarchicalMeasure, a dict or a Truth.
    """
    truth = _read(truth)
    omega, a = [], []
    for g, weights in enumerate(truth.omega):
        half = weights[k] / 2
        omega.append([half if c == k else w for c, w in enumerate(weights)] + [half])
        head = [[list(v) for v in expert] + [list(expert[k])] for expert in truth.a[g]]
        if g == h:
            head[i][k][p] += DELTA
            head[i][-1][p] -= DELTA
        a.append(head)
    return {"omega": omega, "M": [[[list(r) for r in m] for m in head] for head in truth.M], "a": a}


def homogeneous_split(truth, degree: int, h: int = 0, k: int = 0) -> dict:
    """Return the split along a channel's own vectors that phi(c t) = c^degree phi(t) hides.

    All a[h, :, k] are scaled by 1 + delta and by 1 - delta; both weights are divided by
    (1 + delta)^degree + (1 - delta)^degree.

    Examples
    --------
    >>> from hmoe_lib.identifiability.truths import generic_truth
    >>> G = generic_truth(2)
    >>> prove_identity("I", G, homogeneous_split(G, 2), "z**2").proved
    True
    >>> prove_identity("I", G, homogeneous_split(G, 2), "z**3").proved
    False
    """
    truth = _read(truth)
    split = plain_split(truth, h, 0, k, 0)
    share = truth.omega[h][k] / ((1 + DELTA) ** degree + (1 - DELTA) ** degree)
    split["omega"][h][k] = split["omega"][h][-1] = share
    for i, expert in enumerate(truth.a[h]):
        split["a"][h][i][k] = [v * (1 + DELTA) for v in expert[k]]
        split["a"][h][i][-1] = [v * (1 - DELTA) for v in expert[k]]
    return split


def regression_function(setting: str, phi, omega, M, a) -> sympy.Expr:
    """Return g in x1, ..., xd; settings "mha", "I" and "II"; entries may hold delta."""
    sizes = (len(omega), len(M[0]), len(omega[0]), len(a[0][0][0]))
    kind = "I" if setting == "mha" else setting
    g = conditions.layout(sizes, kind).g
    values = {s: _number(v) for s, v in _by_name(omega, M, a).items()}
    activation = Z if setting == "mha" else admit(parse_activation(phi))
    return insert([g.xreplace(values)], activation)[0]


def _by_name(omega, M, a) -> dict:
    """Names of the parameters with their entries, delta allowed."""
    names = {}
    for h, head in enumerate(a):
        for i, expert in enumerate(head):
            d = len(expert[0])
            for p in range(d):
                for q in range(p, d):
                    if i < len(head) - 1:
                        names[real(f"M{h + 1}{i + 1}_{p + 1}{q + 1}")] = M[h][i][p][q]
            for k, vector in enumerate(expert):
                names[real(f"omega{h + 1}{k + 1}")] = omega[h][k]
                for p, value in enumerate(vector):
                    names[real(f"a{h + 1}{i + 1}{k + 1}_{p + 1}")] = value
    return names


def _number(value) -> sympy.Expr:
    if isinstance(value, sympy.Expr):
        return value
    if isinstance(value, str) and "delta" in value:
        return parse(value, ("delta",))
    return rational(value)


def prove_identity(setting: str, truth, split: dict, phi=None, dim: int = 2) -> Identity:
    """Prove that a split leaves the regression function unchanged for every delta.

    Parameters
    ----------
    setting : {"mha", "I", "II"}
        Which regression function; "mha" needs no activation.
    truth : HierarchicalMeasure, dict or Truth
        omega, M, a; a float counts as the decimal number it prints as.
    split : dict
        omega, M, a with entries that are numbers or text in ``delta``.
    phi : str, Activation or sympy.Expr, optional
        Activation of Settings I and II.
    dim : int, default 2
        d.

    Examples
    --------
    >>> from hmoe_lib.identifiability.truths import generic_truth
    >>> G = generic_truth(2)
    >>> prove_identity("mha", G, plain_split(G)).proved
    True
    >>> prove_identity("I", G, plain_split(G), "tanh").proved
    False
    """
    truth = read_truth(truth, dim)
    before = regression_function(setting, phi, truth.omega, truth.M, truth.a)
    after = regression_function(setting, phi, split["omega"], split["M"], split["a"])
    return Identity("g(split) = g(truth) for every delta", is_zero(after - before))


def split_series(setting: str, phi=None) -> tuple[float, sympy.Expr]:
    """Return the order in delta of the plain split's change of a channel, and its leading term.

    The channel is examined at one expert: u(t + delta x)/2 + u(t - delta x)/2 - u(t) in Setting I
    and for attention; in Setting II the shift is delta s x with s the expert's gate. The order is
    infinite for a zero difference.

    Examples
    --------
    >>> split_series("mha")
    (inf, 0)
    >>> split_series("I", "exp(z)")
    (2, x**2*exp(t)/2)
    """
    t, x, s = real("t"), real("x"), real("s")
    u = Z if setting == "mha" else admit(parse_activation(phi))
    shift = DELTA * x * (s if setting == "II" else 1)
    change = (u.subs(Z, t + shift) + u.subs(Z, t - shift)) / 2 - u.subs(Z, t)
    if is_zero(change):
        return float("inf"), sympy.Integer(0)
    for order in range(1, HIGHEST + 1):
        term = change.diff(DELTA, order).subs(DELTA, 0) / sympy.factorial(order)
        if not is_zero(term):
            return order, sympy.simplify(term)
    raise ValueError(f"phi: no term up to order {HIGHEST} was found")


@dataclass(frozen=True)
class OrderProof:
    """Bounds of the order of contact of a split, for parameters near the truth.

    ``order`` is the exact order where both bounds are proved and meet, else None. ``upper`` and
    ``lower`` say what was proved: F <= C delta^r and F >= c delta^r.
    """

    order: float | None
    upper: str
    lower: str

    def __str__(self) -> str:
        known = "not settled" if self.order is None else f"{self.order:g}"
        return f"order {known}: {self.upper}; {self.lower}"


def prove_order(setting: str, phi=None, truth=None, dim: int = 2) -> OrderProof:
    """Prove the order of contact of a split channel, where series and certificates suffice.

    Parameters
    ----------
    setting : {"mha", "I", "II"}
        Which regression function.
    phi : str, Activation or sympy.Expr, optional
        Activation of Settings I and II.
    truth : HierarchicalMeasure, dict or Truth, optional
        By default a generic one.
    dim : int, default 2
        d.

    Notes
    -----
    Upper bound: the series of the plain split. Lower bound, for fitted parameters near the truth
    and weights bounded below: in the expansion of g the second moment of the pair is at least a
    multiple of delta^2, and by the model condition no combination of derivatives cancels it.

    Examples
    --------
    >>> print(prove_order("mha"))
    order inf: the plain split leaves g unchanged; nothing below it
    """
    truth = generic_truth(dim) if truth is None else read_truth(truth, dim)
    if setting == "mha":
        proved = prove_identity("mha", truth, plain_split(truth), dim=dim).proved
        return OrderProof(
            float("inf") if proved else None,
            "the plain split leaves g unchanged" if proved else "no identity was proved",
            "nothing below it",
        )
    order, term = split_series(setting, phi)
    upper = f"the plain split changes a channel by delta^{order:g} times {term}, and more"
    if order == float("inf"):
        return OrderProof(order, "the plain split leaves g unchanged", "nothing below it")
    v = verdict(phi, dim, "model", setting, truth)
    if v.strongly_identifiable and order == 2:
        return OrderProof(2.0, upper, "the model condition, certified, excludes a smaller change")
    return OrderProof(None, upper, "the model condition does not hold or was not certified")
