"""What the pages of the book need besides the mathematics."""

import os


def glue(name, value):
    """Keep a value for the text of the page, or print it outside a build of the book.

    Parameters
    ----------
    name : str
        The name under which the text refers to the value, with the role ``glue:text``.
    value : object
        The value; a numpy scalar is turned into the Python number that a format needs.

    Examples
    --------
    >>> glue("answer", 42)
    answer = 42
    """
    if getattr(value, "shape", None) == ():
        value = value.item()
    if "HMOE_BOOK_BUILD" in os.environ:
        try:
            from myst_nb import glue as keep
        except ImportError:
            pass
        else:
            keep(name, value, display=False)
            return
    print(f"{name} = {value}")
