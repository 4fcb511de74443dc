"""The PDF, where `make pdf` has built it: references resolve, and no formula leaves its page."""

import re

import pytest
import toc

LOG = toc.ROOT / "_build/latex/gated-attention.log"
WIDEST = 20  # points over the margin


def paper_problems(log: str) -> list[str]:
    """Undefined references, missing characters, and displays that are too wide."""
    found = re.findall(r"LaTeX Warning: .*? undefined|Missing character: .*", log)
    wide = re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\) (detected|in display)", log)
    return found + [
        f"a display is {width} pt too wide" for width, _ in wide if float(width) > WIDEST
    ]


def test_the_paper_is_whole():
    if not LOG.is_file():
        pytest.skip("the PDF is not built: run `make pdf` first to test it")
    assert paper_problems(LOG.read_text(encoding="utf8", errors="replace")) == []


@pytest.mark.parametrize(
    ("line", "problems"),
    [
        (r"Overfull \hbox (3.1pt too wide) detected at line 7", 0),
        (r"Overfull \hbox (31.0pt too wide) detected at line 7", 1),
        (r"Overfull \hbox (31.0pt too wide) in paragraph at lines 7--8", 0),
        ("LaTeX Warning: Reference `a:b' on page 18 undefined on input line 611.", 1),
        ("Missing character: There is no φ in font", 1),
    ],
)
def test_what_is_wrong_with_a_paper_is_found(line, problems):
    assert len(paper_problems(line)) == problems
