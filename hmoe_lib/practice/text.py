"""The text that is learned: the Python language reference, or a file of the reader's own."""

from __future__ import annotations

import hashlib
import platform
from typing import NamedTuple

import numpy as np

Array = np.ndarray

__all__ = ["BLOCK", "SMALLEST", "Text", "python_reference", "text_of"]

BLOCK = 4096
"""Bytes of a block; every tenth block is kept for validation."""
SMALLEST = 20 * BLOCK
"""Bytes that a text must have: two blocks for validation."""


class Text(NamedTuple):
    """A text as bytes, in two parts.

    Parameters
    ----------
    name : str
        Where it comes from.
    train, validation : ndarray of uint8
        Nine blocks of ten, joined, and every tenth.
    sha256 : str
        Of the whole text.
    """

    name: str
    train: Array
    validation: Array
    sha256: str


def python_reference() -> Text:
    """Return the topics of Python's own help, without what they repeat.

    Returns
    -------
    Text
        About 400 kB of English, reStructuredText and code.

    Notes
    -----
    The text is `pydoc_data.topics`, part of every Python, under the Python Software Foundation
    License Version 2. Topics quote each other at length, and a paragraph that is in the training
    part would make its copy in the validation part easy: every paragraph is kept once. The text
    differs between versions of Python, so results name the version and the text's hash.

    Examples
    --------
    >>> text = python_reference()
    >>> len(text.train) > 8 * len(text.validation) > 100_000
    True
    """
    from pydoc_data.topics import topics

    seen: set[str] = set()
    kept = []
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            words = " ".join(paragraph.split())  # copies differ in how they are indented
            if words and words not in seen:
                seen.add(words)
                kept.append(paragraph.strip("\n"))
    whole = "\n\n".join(kept).encode()
    return text_of(f"pydoc_data.topics of Python {platform.python_version()}", whole)


def text_of(name: str, content: bytes) -> Text:
    """Split a text into its two parts, or say why it cannot be used.

    Parameters
    ----------
    name : str
        For messages and for the manifest.
    content : bytes
        The file's content; it must be UTF-8 and at least SMALLEST bytes long.

    Raises
    ------
    ValueError
        If the content is empty, too short, binary, or not UTF-8.

    Examples
    --------
    >>> text_of("mine.txt", b"")
    Traceback (most recent call last):
        ...
    ValueError: text: mine.txt is empty; expected at least 81920 bytes of UTF-8 text
    """
    wanted = f"expected at least {SMALLEST} bytes of UTF-8 text"
    if not content:
        raise ValueError(f"text: {name} is empty; {wanted}")
    if b"\0" in content:
        raise ValueError(
            f"text: {name} is binary (a zero byte at position {content.index(0)}); {wanted}"
        )
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"text: {name} is not UTF-8 (byte 0x{content[error.start]:02x} at position "
            f"{error.start}); {wanted}. Save it as UTF-8 in your editor"
        ) from None
    if len(content) < SMALLEST:
        raise ValueError(f"text: {name} is too short, {len(content)} bytes; {wanted}")
    data = np.frombuffer(content, dtype=np.uint8)
    blocks = np.arange(len(data)) // BLOCK
    held = blocks % 10 == 9
    return Text(name, data[~held], data[held], hashlib.sha256(content).hexdigest())
