"""Random problems, and the checks that a test shares with its negative control.

A check raises AssertionError with a sentence. The test hands it the library; the control hands
it the same thing broken on purpose and expects the AssertionError.
"""

import tracemalloc

import numpy as np
from hypothesis import strategies as st

import hmoe_lib as hl
from hmoe_lib import models, reference
from hmoe_lib.blocks import BLOCK_SIZE

PHI = hl.activation("sigmoid", bias=1.0)
MODELS = {
    "mha": hl.Mha(),
    "value": hl.ValueGated(PHI),
    "output": hl.OutputGated("tanh", bias=0.5),
}
LINEAR_EXPERTS = {
    "key": models.KeyGated("tanh", bias=0.5),
    "query": models.QueryGated(PHI),
    "layer": models.LayerGated("tanh", bias=0.5),
}
LOOPS = {
    "ValueGated": reference.value_gated,
    "OutputGated": reference.output_gated,
    "KeyGated": reference.key_gated,
    "QueryGated": reference.query_gated,
    "LayerGated": reference.layer_gated,
}
SEEDS = st.integers(0, 2**32 - 1)


def sizes(H=3, N=4, K=4, d=3):
    """Strategy for the sizes of a measure, each from 1 to the number given."""
    most = {"H": H, "N": N, "K": K, "d": d}
    return st.fixed_dictionaries({name: st.integers(1, top) for name, top in most.items()})


def random_measure(rng, H=2, N=3, K=3, d=2, spread=1.0, signed=False):
    """A measure with normal entries of M and a, and weights in [0.5, 1.5]."""
    M = spread * rng.standard_normal((H, N, d, d))
    omega = rng.uniform(0.5, 1.5, (H, K)) * (rng.choice([-1.0, 1.0], (H, K)) if signed else 1.0)
    a = spread * rng.standard_normal((H, N, K, d))
    return hl.HierarchicalMeasure.normalized(omega, M, a, signed)


def relabelling(rng, G):
    """A random order of heads, channels and experts, as arguments of ``permuted``."""
    H, N, K, _ = G.shape
    return {
        "heads": rng.permutation(H),
        "channels": np.array([rng.permutation(K) for _ in range(H)]),
        "experts": np.array([rng.permutation(N) for _ in range(H)]),
    }


def loops(model, G, x):
    """The regression function by plain loops."""
    name = type(model).__name__
    return LOOPS[name](G, x, model.phi) if name in LOOPS else reference.mha(G, x)


def inner(model):
    """The activation inside a channel function: Setting I has one there, the others none."""
    return model.phi if isinstance(model, hl.ValueGated) else None


def score(model):
    """The score of an expert as plain loops."""
    if isinstance(model, models.KeyGated):
        return lambda M, x: reference.key_score(M, x, model.phi)
    if isinstance(model, models.QueryGated):
        return lambda M, x: reference.query_score(M, x, model.phi)
    return reference.quadratic_form


def demand(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def check_close(got, expected, tolerance, what="values"):
    """Largest difference, relative to the size of what is expected."""
    got, expected = np.asarray(got), np.asarray(expected)
    demand(got.shape == expected.shape, f"{what}: shape {got.shape} for {expected.shape}")
    size = max(1.0, np.abs(expected).max(initial=0.0))
    gap = np.abs(got - expected).max(initial=0.0) / size
    demand(gap <= tolerance, f"{what}: differ by {gap:.3g}, more than {tolerance:g}")


# ---- functions and derivatives ---------------------------------------------------------------


def finite_differences(function, theta, h=1e-3):
    """Derivatives by five points, of order h^4; the parameter is the last axis."""
    columns = []
    for j in range(len(theta)):
        at = [np.array(theta, dtype=float) for _ in range(4)]
        for point, steps in zip(at, (-2, -1, 1, 2), strict=True):
            point[j] += steps * h
        low2, low, high, high2 = (np.asarray(function(point)) for point in at)
        columns.append((low2 - 8.0 * low + 8.0 * high - high2) / (12.0 * h))
    return np.stack(columns, axis=-1)


def check_derivative(function, derivative, theta, tolerance=1e-7):
    """Compare derivative(theta), parameters on the last axis, with differences of the function."""
    theta = np.asarray(theta, dtype=float)
    check_close(derivative(theta), finite_differences(function, theta), tolerance, "derivatives")


def check_activation_derivatives(phi, points, tolerance=1e-8):
    """phi' and phi'' of an activation against differences of phi and phi'."""
    pairs = (phi, phi.first_derivative), (phi.first_derivative, phi.second_derivative)
    for function, derivative in pairs:
        for z in points:
            check_derivative(function, lambda z, d=derivative: d(z)[:, None], [z], tolerance)


def check_activation_values(phi, symbolic, points, tolerance=1e-12):
    """phi, phi', phi'' against a sympy expression differentiated and evaluated to 40 digits."""
    import mpmath
    import sympy

    z = sympy.Symbol("z", real=True)
    kinks = {"Heaviside": lambda x, *_: int(x > 0), "DiracDelta": lambda *_: 0}
    computed = phi, phi.first_derivative, phi.second_derivative
    for order, function in enumerate(computed):
        formula = sympy.lambdify(z, symbolic(z).diff(z, order), [kinks, "mpmath"])
        for point in points:
            with mpmath.workdps(40):
                exact = float(formula(mpmath.mpf(point.numerator) / point.denominator))
            got = float(function(float(point)))
            demand(
                abs(got - exact) <= tolerance * abs(exact) + 1e-15,
                f"{phi.name}, derivative {order} at {point}: {got!r} for {exact!r}",
            )


def check_predictions(predict, model, G, X, tolerance=1e-12):
    """A function (G, X) -> (n,) against plain loops."""
    check_close(predict(G, X), [loops(model, G, x) for x in X], tolerance, "predictions")


def check_same_function(model, G, other, X, tolerance=1e-10):
    """Two measures with one function."""
    check_close(model.predict(other, X), model.predict(G, X), tolerance, "functions")


def check_constant_memory(work, make, n=2 * BLOCK_SIZE, allowed=30_000):
    """Peak memory of work(data), data left out, must not grow from n samples to 4 n."""
    peaks = []
    work(make(n))  # caches of the first call are not the work's
    for size in (n, 4 * n):
        data = make(size)
        tracemalloc.start()
        work(data)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    demand(peaks[1] - peaks[0] < allowed, f"peaks {peaks} bytes for {n} and {4 * n} samples")


# ---- measures --------------------------------------------------------------------------------


def check_vector_order(vector, G):
    """The documented order, written as loops: M (i < N, p <= q), then a, then omega."""
    H, N, K, d = G.shape
    expected = [
        G.M[h, i, p, q]
        for h in range(H) for i in range(N - 1) for p in range(d) for q in range(p, d)
    ]  # fmt: skip
    expected += [
        G.a[h, i, k, p]
        for h in range(H) for i in range(N) for k in range(K) for p in range(d)
    ]  # fmt: skip
    expected += [G.omega[h, k] for h in range(H) for k in range(K)]
    demand(np.array_equal(vector, expected), "vector: entries not in the documented order")


# ---- Voronoi ---------------------------------------------------------------------------------


def check_cells(cells, model, G, G_star, X):
    """Cells (H, K, 2) against plain loops."""
    expected = reference.voronoi_cells(G, G_star, X, inner(model))
    for (h, k), cell in expected.items():
        got = tuple(int(index) for index in cells[h, k])
        demand(got == cell, f"cell of fitted channel {(h, k)}: {got} for {cell}")


# ---- fits ------------------------------------------------------------------------------------


def check_history(history):
    """A loss that never increases."""
    history = np.asarray(history)
    demand(np.isfinite(history).all(), "history: not finite")
    demand(np.diff(history).max(initial=-np.inf) <= 0, "history: the loss increases")


def check_minimum(model, G, X, y, box, cosine=1e-4):
    """No parameter that may move is correlated with the residual.

    |J_j^T r| / (|J_j| |r|), the measure of MINPACK: free of the scales of parameters and noise.
    """
    here = model.normal_equations(G, X, y)
    size = np.sqrt(np.diag(here.gram) * here.loss) + np.finfo(float).tiny
    blocked = box.outward(G.to_vector(), -here.gradient)
    slope = np.where(blocked, 0.0, np.abs(here.gradient) / size)
    demand(slope.max() <= cosine, f"not a minimum: cosine {slope.max():.3g} with the residual")


def check_armijo(model, X, y, before, after, step, box):
    """The first step of step, step/2, ... that delivers a share 1e-4 of what it promises."""
    loss, gradient = model.loss_and_gradient(before, X, y)
    theta, reached = before.to_vector(), after.to_vector()
    for halving in range(60):
        eta = step * 0.5**halving
        trial = box.clip(theta - eta * gradient)
        trial_loss = model.loss_and_gradient(before.from_vector(trial), X, y)[0]
        if trial_loss <= loss - 1e-4 * np.sum((trial - theta) ** 2) / eta:
            check_close(reached, trial, 1e-12, f"the step accepted after {halving} halvings")
            return halving
    raise AssertionError("no step satisfies the condition")


def check_sound(fit, start, box):
    """What every result promises, however the fit ended."""
    from hmoe_lib.estimation import STATUSES

    theta = fit.measure.to_vector()
    demand(fit.status in STATUSES, f"status {fit.status!r} is not documented")
    demand(fit.message.startswith(f"{fit.status}: {STATUSES[fit.status]}"), fit.message)
    demand(np.isfinite(theta).all(), "measure: not finite")
    demand(np.all((box.lower <= theta) & (theta <= box.upper)), "measure: outside the bounds")
    demand(fit.measure.shape == start.shape, "measure: another shape than the start")
    for name in ("loss", "history", "gradient"):
        demand(not np.isnan(getattr(fit, name)).any(), f"{name}: NaN")
    demand(fit.loss == fit.history[-1], "loss: not the last of the history")
    demand(fit.iterations == len(fit.history) - 1, "iterations: not the steps of the history")
    demand(fit.converged == (fit.status in ("converged", "hit bounds")), "converged: not as status")
    if fit.status == "diverged":
        demand(np.array_equal(theta, start.to_vector()), "diverged: not at the start")
    else:
        check_history(fit.history)
