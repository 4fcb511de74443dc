"""Gates of a flat mixture of experts: a score for every atom, then a softmax or a sigmoid."""

from __future__ import annotations

import difflib

from hmoe_lib.activations import activation
from hmoe_lib.gates.scores import (
    Cosine,
    Linear,
    Monomial,
    Polynomial,
    Score,
    Temperature,
    Transformed,
)
from hmoe_lib.gates.weights import Gate, Sigmoid, Softmax

__all__ = [
    "GATES",
    "Cosine",
    "Gate",
    "Linear",
    "Monomial",
    "Polynomial",
    "Score",
    "Sigmoid",
    "Softmax",
    "Temperature",
    "Transformed",
    "gate",
]

GATES = {
    "linear": lambda **o: Softmax(Linear(), **o),
    "polynomial": lambda **o: Softmax(Polynomial(), **o),
    "monomial": lambda **o: Softmax(Monomial(), **o),
    "transformed": lambda m="tanh", **o: Softmax(Transformed(activation(m)), **o),
    "cosine": lambda top=None, **o: Softmax(Cosine(0.0, 0.0, **o), top),
    "perturbed_cosine": lambda tau=1.0, top=None, **o: Softmax(Cosine(tau, **o), top),
    "temperature": lambda **o: Softmax(Temperature(), **o),
    "activated_temperature": lambda phi="sigmoid", **o: Softmax(Temperature(activation(phi)), **o),
    "sigmoid": lambda: Sigmoid(Linear()),
    "sigmoid_polynomial": lambda: Sigmoid(Polynomial()),
    "sigmoid_monomial": lambda: Sigmoid(Monomial()),
}


def gate(name: str | Gate, **options) -> Gate:
    """Return the gate of that name; options are those of its score, and ``top`` of a softmax.

    Raises
    ------
    ValueError
        For an unknown name (the closest one is suggested) or option.

    Examples
    --------
    >>> gate("cosine", top=2).top
    2
    >>> gate("cosin")
    Traceback (most recent call last):
        ...
    ValueError: gate: 'cosin' is not known; did you mean 'cosine'?
    """
    if isinstance(name, Gate) and not options:
        return name
    if name not in GATES:
        near = difflib.get_close_matches(str(name), GATES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(GATES)}"
        raise ValueError(f"gate: {name!r} is not known; {hint}")
    try:
        return GATES[name](**options)
    except TypeError as error:
        raise ValueError(f"gate {name!r}: {str(error).split(') ')[-1]}") from None
