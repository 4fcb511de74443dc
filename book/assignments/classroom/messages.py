"""What examiner and students' kernel exchange: numbers, arrays, text, lists, measures; no code.

The kernel side imports this module before any student code runs. Nothing that comes back is ever
executed or unpickled, so the worst that a student can send is a wrong answer.
"""

from __future__ import annotations

import base64
import json
import math

import numpy as np

MIME = "application/x-hmoe-answer+json"
LARGEST = 20_000_000  # bytes of one message


def encode(value) -> object:
    """Return a value as plain JSON, or raise TypeError in words for the student."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex() if math.isfinite(value) else repr(float(value))}
    if isinstance(value, np.ndarray) and value.dtype.kind in "bif":
        data = np.ascontiguousarray(value)
        text = base64.b64encode(data.tobytes()).decode()
        return {"array": text, "dtype": data.dtype.str, "shape": list(value.shape)}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [encode(entry) for entry in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(entry)] for key, entry in value.items()]}
    if all(hasattr(value, name) for name in ("omega", "M", "a", "to_vector")):
        arrays = [encode(np.asarray(getattr(value, name))) for name in ("omega", "M", "a")]
        return {"measure": arrays, "signed": bool(value.signed)}
    if type(value).__module__.startswith("sympy."):
        return str(value)
    raise TypeError(
        f"a {type(value).__name__} cannot be handed in, only numbers, arrays of numbers, "
        "text, lists, tuples, dictionaries and measures"
    )


def decode(value) -> object:
    """The inverse of :func:`encode`."""
    if not isinstance(value, dict):
        return value
    (kind, content), *_ = value.items()
    if kind == "float":
        return float.fromhex(content) if "0x" in content else float(content)
    if kind == "array":
        dtype = np.dtype(value["dtype"])
        if dtype.kind not in "bif":
            raise ValueError("an array of something else than numbers")
        data = np.frombuffer(base64.b64decode(content), dtype=dtype)
        return data.reshape(value["shape"]).copy()
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](decode(entry) for entry in content)
    if kind == "dict":
        return {decode(key): decode(entry) for key, entry in content}
    if kind == "measure":
        from hmoe_lib import HierarchicalMeasure

        return HierarchicalMeasure(*(decode(entry) for entry in content), signed=value["signed"])
    raise ValueError(f"an unknown kind of message: {kind}")


def question(name: str, args: tuple | None = None, named: dict | None = None) -> str:
    """Return the code that makes the students' kernel answer: what NAME is, or what it returns."""
    content = None if args is None else [encode(list(args)), encode(named or {})]
    return f"__import__('classroom.messages').messages.answer({name!r}, {json.dumps(content)!r})"


def answer(name: str, content: str) -> None:
    """Run in the students' kernel: look a name up or call it, and show the result as JSON."""
    from IPython import get_ipython
    from IPython.display import display

    scope, content = get_ipython().user_ns, json.loads(content)
    if name not in scope:
        reply = {"missing": name}
    elif content is None:
        reply = {"function": name} if callable(scope[name]) else {"value": encode(scope[name])}
    else:
        args, named = (decode(entry) for entry in content)
        reply = {"value": encode(scope[name](*args, **named))}
    display({MIME: reply}, raw=True)
