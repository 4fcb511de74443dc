"""Compare a function with plain loops; if they differ, find a small input that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

Array = np.ndarray
Case = dict[str, object]

__all__ = ["DifferenceError", "compare"]

TOLERANCE = 1e-8
ROUNDS = 6


class DifferenceError(AssertionError):
    """Your function and the loops disagree; the message holds the smallest input found."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message alone, not the lines of this module."""
        return [str(self)]


def compare(
    yours: Callable,
    expected: Callable,
    cases: Iterable[Case],
    mistakes: dict[str, Callable] | None = None,
) -> str:
    """Call both functions on all cases and return a sentence, or raise with the smallest case.

    Parameters
    ----------
    yours : callable
        The function under test. It gets copies, so it may write into its arguments.
    expected : callable
        The plain loops, with the same arguments.
    cases : iterable of dict
        Keyword arguments, smallest first.
    mistakes : dict, optional
        Typical mistakes, from what to say about one to the function that makes it.

    Returns
    -------
    str
        How many inputs agreed.

    Raises
    ------
    DifferenceError
        If your function raises an error, returns another shape, or other numbers.

    Examples
    --------
    >>> cases = [{"x": np.array([0.0])}, {"x": np.array([2.0, 1.0])}]
    >>> compare(lambda x: 2 * x, lambda x: x + x, cases)
    'Well done: 2 inputs, and your results agree with the loops on all of them.'
    """
    if not callable(yours):
        raise DifferenceError(f"This check wants a function; it got {_short(yours)}.")
    count = 0
    for case in cases:
        count += 1
        if count == 1:
            _refuse_unwritten(yours, case)
        if _problem(yours, expected, case):
            case = _simplified(yours, expected, case)
            raise DifferenceError(_report(yours, expected, case, mistakes or {}))
    return f"Well done: {count} inputs, and your results agree with the loops on all of them."


def _refuse_unwritten(yours: Callable, case: Case) -> None:
    try:
        yours(**_copied(case))
    except NotImplementedError:
        name = getattr(yours, "__name__", "your function")
        text = (
            f"{name} is not written yet: put your code in place of `raise NotImplementedError()`."
        )
        raise DifferenceError(text) from None
    except Exception:  # is reported with the smallest input
        return


def _copied(case: Case) -> Case:
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in case.items()}


def _problem(yours: Callable, expected: Callable, case: Case) -> str | None:
    """What is wrong with one result, in words; None if nothing is."""
    wanted = np.asarray(expected(**_copied(case)), dtype=float)
    try:
        got = yours(**_copied(case))
    except Exception as error:
        return f"it stopped with {type(error).__name__}: {error}"
    if got is None:
        return "it returned nothing; is there a `return`?"
    try:
        got = np.asarray(got, dtype=float)
    except (TypeError, ValueError):
        return f"it returned {_short(got)}, which is not an array of numbers"
    if got.shape != wanted.shape:
        return f"the shape is {got.shape}, and it should be {wanted.shape}"
    if not np.all(np.isfinite(got)):
        return "there is NaN or infinity in it"
    if not np.allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE):
        return "the numbers differ"
    return None


def _simplified(yours: Callable, expected: Callable, case: Case) -> Case:
    """Make entries 0 or 1, or round them, as long as the results still differ."""
    for name, value in case.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.size > 40:
            continue
        for simpler in (np.zeros_like(value), np.ones_like(value), np.round(value)):
            if _kept(yours, expected, case, name, simpler):
                case = {**case, name: simpler}
                break
        for index in np.ndindex(value.shape):
            simpler = case[name].copy()
            simpler[index] = 0.0
            if _kept(yours, expected, case, name, simpler):
                case = {**case, name: simpler}
    return case


def _kept(yours: Callable, expected: Callable, case: Case, name: str, value: Array) -> bool:
    """Whether the simpler input shows the same problem, up to the wording of its numbers."""
    try:
        simpler = _problem(yours, expected, {**case, name: value}) or ""
        return simpler.split()[:5] == (_problem(yours, expected, case) or "").split()[:5]
    except (ArithmeticError, ValueError):  # the loops refuse this input, so it is no example
        return False


def _report(yours: Callable, expected: Callable, case: Case, mistakes: dict[str, Callable]) -> str:
    name = getattr(yours, "__name__", "your function")
    lines = [f"{name}: {_problem(yours, expected, case)}.", "", "The smallest input I found:"]
    lines += [f"  {key} = {_short(value)}" for key, value in case.items()]
    lines += ["", f"expected: {_short(np.asarray(expected(**_copied(case))))}"]
    try:
        got = np.asarray(yours(**_copied(case)), dtype=float)
    except Exception:
        return "\n".join(lines)
    lines.append(f"got:      {_short(got)}")
    for hint, wrong in mistakes.items():
        try:
            same = np.array_equal(np.shape(wrong(**_copied(case))), got.shape)
            if same and np.allclose(wrong(**_copied(case)), got, rtol=1e-6, atol=1e-9):
                return "\n".join([*lines, "", f"A guess: {hint}"])
        except (ArithmeticError, ValueError):
            continue
    return "\n".join(lines)


def _short(value) -> str:
    if isinstance(value, np.ndarray):
        text = np.array2string(value, precision=6, threshold=60, separator=", ")
        text = text.replace("\n", "\n      ")
        return text if value.ndim == 0 else f"{text}, shape {value.shape}"
    text = repr(value)
    return text if len(text) < 200 else text[:200] + " ..."
