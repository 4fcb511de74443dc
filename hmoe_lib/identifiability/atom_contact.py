r"""Orders of contact in flat mixtures of two atoms, noise-free: the first atom split in two.

One parameter of the pair is held at plus and minus delta, and the distance to the true function
is minimised over everything else. The second atom's gate is pinned; biases are free. The norm is
L2 of the uniform law on [-2, 2]^d, summed over classes, and over y in [-6, 6] for a density.
"""

from __future__ import annotations

import itertools

import numpy as np
import sympy

from hmoe_lib.identifiability.atoms import WEIGHT, Atom, atom
from hmoe_lib.identifiability.contact import Contact, descend, judged, profile
from hmoe_lib.identifiability.gram import cube_rule
from hmoe_lib.identifiability.parsing import real

Array = np.ndarray

__all__ = ["DELTAS", "WIDE", "atom_contact", "cell_contacts"]

DELTAS = tuple(0.064 * 2.0 ** (-k / 2) for k in range(7))
# The order is a limit, so displacements are small; where it is 4, distances reach rounding first.
WIDE = tuple(0.4 * 2.0 ** (-k / 2) for k in range(7))
# Of the second atom, in the order of its parameters: unlike those of the first.
_OTHER = (-0.8, 1.3, -0.7, 0.4, 0.9, -0.5, 0.6, -1.1, 0.8, 0.3)
NODES = {1: 24, 2: 14, 3: 8}


def atom_contact(gate, expert, name: str, deltas=DELTAS, dim: int | None = None) -> Contact:
    """Return the order of contact along one parameter of a split atom.

    Parameters
    ----------
    gate, expert, dim
        As for :func:`atom_verdict`.
    name : str
        A parameter of the gate or of the expert that atoms do not share.
    deltas : sequence of float
        Displacements, at least four.

    Examples
    --------
    >>> atom_contact("polynomial quadratic", "tanh neuron", "beta", deltas=WIDE).integer
    4
    >>> atom_contact("monomial quadratic", "tanh neuron", "A").integer
    2
    """
    a = atom(gate, expert, dim)
    own = [n for n in a.names if n not in a.shared]
    if name not in own:
        raise ValueError(f"name: expected one of {own}, got {name!r}")
    deltas = np.sort(np.asarray(deltas, dtype=float))[::-1]
    if len(deltas) < 4 or not deltas[-1] > 0:
        raise ValueError("deltas: expected at least four positive numbers")
    mixture = _Mixture(a)
    distances = profile(lambda d, starts: mixture.smallest(name, d, starts),
                        np.zeros(len(mixture.free(name))), deltas)  # fmt: skip
    return judged(deltas, distances, mixture.scale)


def cell_contacts(v) -> dict[str, dict]:
    """Return measured orders of contact of a cell, by parameter; none where the order is infinite.

    Parameters
    ----------
    v : AtomVerdict
        Of a named gate and expert.
    """
    if v.order is None or np.isinf(v.order):
        return {}
    late = {s.text.split(" ")[0] for s in v.splits}
    found = {}
    for name in (n for n in v.atom.names if n not in v.atom.shared):
        c = atom_contact(v.gate, v.expert, name, WIDE if name in late else DELTAS)
        found[name] = {"order": round(c.order, 3), "spread": round(c.error, 3),
                       "integer": c.integer}  # fmt: skip
    return found


class _Mixture:
    """Three fitted atoms, two of them copies of the first true one, on quadrature points."""

    def __init__(self, a: Atom) -> None:
        if real("k") in a.expression.free_symbols:
            raise ValueError("expert: a ReLU neuron by its length has no contact to measure")
        self.atom = a
        self.at, parts = {}, []
        for copy in (1, 2, 3):
            parts.append(self._part(copy))
        weights = [w for w, _ in parts]
        whole = sympy.Add(*(w * h for w, h in parts))
        if a.kind == "softmax":
            whole = whole / sympy.Add(*weights)
        self.symbols = list(self.at)
        outputs = [whole, *(whole.diff(s) for s in self.symbols)]
        inputs = a.inputs(a.numerator)
        self.function = sympy.lambdify([*inputs, *self.symbols], outputs, ["scipy", "numpy"],
                                       cse=True)  # fmt: skip
        self.columns, weight = _points([s.name for s in inputs])
        self.root = np.sqrt(weight)
        self.theta = np.array([float(self.at[s]) for s in self.symbols])
        self.target = self._values(self.theta)[0]
        self.scale = float(np.linalg.norm(self.root * self.target)) or 1.0

    def _part(self, copy: int) -> tuple[sympy.Expr, sympy.Expr]:
        """Gate and expert of an atom, its parameters named by the copy; the pair's bias is one."""
        a, other = self.atom, dict(zip(self.atom.names, _OTHER, strict=False))
        named = {}
        for n in a.names:
            if n in a.shared:
                self.at[real(n)] = a.at[n]
                continue
            if copy == 3 and n in a.gate_names and a.kind == "softmax":
                named[real(n)] = sympy.Rational(str(other[n]))
                continue
            named[real(n)] = real(f"{n}_{copy}")
            self.at[named[real(n)]] = a.at[n] if copy < 3 else self._near(n, other[n])
        score, h = a.score.xreplace(named), a.expert.xreplace(named)
        if a.kind == "softmax":
            bias = real("bias") if copy < 3 else sympy.Integer(0)
            if copy < 3:
                self.at[bias] = -np.log(2.0)
            return sympy.exp(score + bias), h
        bias = real("bias") if copy < 3 else real("bias_3")
        half = float(sympy.Rational(WEIGHT)) / 2
        self.at[bias] = np.log(half / (1 - half)) if copy < 3 else 0.3
        return 1 / (1 + sympy.exp(-score - bias)), h

    def _near(self, n: str, value: float) -> float:
        return float(self.atom.at[n]) * 1.5 if n in {"nu"} else value

    def free(self, name: str) -> list[int]:
        """Places of the parameters that are not held."""
        held = {real(f"{name}_1"), real(f"{name}_2")}
        return [i for i, s in enumerate(self.symbols) if s not in held]

    def _values(self, theta: Array) -> list[Array]:
        columns = self.function(*self.columns, *theta)
        return [np.broadcast_to(c, self.root.shape) for c in columns]

    def smallest(self, name: str, delta: float, starts: list[Array]) -> tuple[float, Array]:
        base, places = self.theta.copy(), self.free(name)
        base[self.symbols.index(real(f"{name}_1"))] += delta
        base[self.symbols.index(real(f"{name}_2"))] -= delta

        def theta(free: Array) -> Array:
            moved = base.copy()
            moved[places] += free
            return moved

        def residual(free: Array) -> Array:
            with np.errstate(all="ignore"):
                r = self.root * (self._values(theta(free))[0] - self.target)
            return np.where(np.isfinite(r), r, 1e6)

        def jacobian(free: Array) -> Array:
            columns = self._values(theta(free))[1:]
            return np.stack([self.root * columns[i] for i in places], axis=1)

        starts = [*starts, *self._apart(name, delta, places)]
        return min((descend(residual, jacobian, s, self.scale) for s in starts),
                   key=lambda r: r[0])  # fmt: skip

    def _apart(self, name: str, delta: float, places: list[int]) -> list[Array]:
        """Starts with another parameter of the pair pulled apart by sqrt(delta)."""
        starts = []
        for n in self.atom.names:
            if n == name or n in self.atom.shared:
                continue
            move = np.zeros(len(self.theta))
            move[self.symbols.index(real(f"{n}_1"))] = np.sqrt(delta) / 2
            move[self.symbols.index(real(f"{n}_2"))] = -np.sqrt(delta) / 2
            starts.append(move[places])
        return starts


def _points(names: list[str]) -> tuple[list[Array], Array]:
    """Quadrature points by coordinate and weights; classes as unit vectors, all of weight 1."""
    x = [n for n in names if n.startswith("x")]
    X, w = cube_rule(len(x), NODES[len(x)])
    blocks, weights = [2 * X], [w]
    if "y" in names:
        t, v = np.polynomial.legendre.leggauss(40)
        blocks, weights = [*blocks, 6 * t[:, None]], [*weights, 6 * v]
    classes = [n for n in names if n.startswith("t")]
    if classes:
        blocks, weights = [*blocks, np.eye(len(classes))], [*weights, np.ones(len(classes))]
    rows = [np.concatenate(parts) for parts in itertools.product(*blocks)]
    columns = np.array(rows).T
    order = [*x, *(["y"] if "y" in names else []), *classes]
    total = np.array([np.prod(parts) for parts in itertools.product(*weights)])
    return [columns[order.index(n)] for n in names], total
