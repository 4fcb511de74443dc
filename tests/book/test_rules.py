"""Each rule passes on a good page and fails on the page that breaks it."""

import nbformat
import pytest
import rules
import toc
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ALT = "Two straight lines that fall from left to right, one of them twice as fast."
BOX = """```{admonition} Before you start
:class: before
**You need** nothing. **Time** 20 minutes. **Afterwards you can** read.
```"""
FIGURE = {"image": {"alt": ALT}, "figure": {"caption": "Two lines", "name": "fig-lines"}}


@pytest.fixture
def good():
    nb = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    nb.cells = [
        new_markdown_cell(f"# A page\n\n{BOX}"),
        new_code_cell("import numpy as np\nhl.plots.use()"),
        new_code_cell("ax.plot(x)\nfig, ax = plt.subplots()", metadata={"mystnb": FIGURE}),
        new_code_cell("# Contract: the numbers of this page\nassert np.pi > 3"),
    ]
    nb.nbformat, nb.nbformat_minor = 4, 5
    nbformat.validate(nb)
    return nb


@pytest.mark.parametrize("rule", rules.NOTEBOOK_RULES)
def test_a_good_notebook_passes(good, rule):
    assert rule(good) == []


@pytest.mark.parametrize(
    ("cell", "enough"),
    [
        (new_markdown_cell("word " * 5500), True),
        (new_markdown_cell("word " * 6500), False),
        (new_code_cell("x = 1\n" * 260), True),
        (new_code_cell("x = 1\n" * 320), False),
        (new_markdown_cell("```{exercise}\n```\n" * 3), True),
        (new_markdown_cell("```{exercise}\n```\n" * 5), False),
        (new_markdown_cell("```{solution-start} ex\n```\n" + "word " * 6500), True),
    ],
)
def test_the_minutes_of_the_box_count_words_code_and_exercises(good, cell, enough):
    good.cells.insert(2, cell)
    assert bool(rules.short_time(good)) is not enough


def stored_count(nb):
    nb.cells[1].execution_count = 3


def stored_output(nb):
    nb.cells[1].outputs = [nbformat.v4.new_output("stream", text="1")]


def old_format(nb):
    nb.nbformat_minor = 4


def other_kernel(nb):
    nb.metadata.kernelspec.name = "julia"


def repeated_id(nb):
    nb.cells[1].id = nb.cells[2].id


def figure_without_metadata(nb):
    nb.cells[2].metadata = nbformat.from_dict({})


def figure_of_the_library_without_metadata(nb):
    nb.cells[1].source = "hl.plots.use()\nhl.plots.rate_figure(result);"


def short_alt(nb):
    nb.cells[2].metadata.mystnb.image.alt = "Two lines"


def long_alt(nb):
    nb.cells[2].metadata.mystnb.image.alt = "Two lines " * 31


def no_caption(nb):
    del nb.cells[2].metadata.mystnb.figure["caption"]


def no_name(nb):
    del nb.cells[2].metadata.mystnb.figure["name"]


def long_cell(nb):
    nb.cells[1].source = "x = 1\n" * 26


def mostly_long_cells(nb):
    nb.cells[1].source = nb.cells[2].source = "x = 1\n" * 9


def no_contract(nb):
    nb.cells[3].source = "assert np.pi > 3"


def contract_not_last(nb):
    nb.cells.append(new_code_cell("x = 1"))


def no_box(nb):
    nb.cells[0].source = "# A page"


def two_boxes(nb):
    nb.cells[0].source += "\n" + BOX


def box_without_needs(nb):
    nb.cells[0].source = nb.cells[0].source.replace("**You need** nothing.", "")


def box_without_minutes(nb):
    nb.cells[0].source = nb.cells[0].source.replace("20 minutes", "a while")


def contract_without_assert(nb):
    nb.cells[3].source = "# Contract: nothing to assert\nprint(1)"


@pytest.mark.parametrize(
    ("rule", "damage"),
    [
        (rules.stored_outputs, stored_count),
        (rules.stored_outputs, stored_output),
        (rules.notebook_format, old_format),
        (rules.notebook_format, other_kernel),
        (rules.notebook_format, repeated_id),
        (rules.figures, figure_without_metadata),
        (rules.figures, figure_of_the_library_without_metadata),
        (rules.figures, short_alt),
        (rules.figures, long_alt),
        (rules.figures, no_caption),
        (rules.figures, no_name),
        (rules.cell_lengths, long_cell),
        (rules.cell_lengths, mostly_long_cells),
        (rules.contract, no_contract),
        (rules.contract, contract_not_last),
        (rules.contract, contract_without_assert),
        (rules.before_box, no_box),
        (rules.before_box, two_boxes),
        (rules.before_box, box_without_needs),
        (rules.before_box, box_without_minutes),
    ],
)
def test_a_damaged_notebook_is_refused(good, rule, damage):
    damage(good)
    assert rule(good) != []


EXERCISE = "```{exercise} Twins\n:label: ex-twins\n\nFind one.\n```\n"
SOLUTION = "```{solution} ex-twins\n:class: dropdown\n\nSwap.\n```\n"


def test_a_solved_exercise_passes():
    assert rules.unsolved_exercises(EXERCISE + SOLUTION) == []
    assert rules.unsolved_exercises((EXERCISE + SOLUTION).replace("```", "::::")) == []


@pytest.mark.parametrize("text", [EXERCISE, SOLUTION, EXERCISE.replace(":label: ex-twins\n", "")])
def test_an_exercise_without_its_solution_is_refused(text):
    assert len(rules.unsolved_exercises(text)) == 1


def chapter(first="assert x == 1", second="assert x"):
    cells = []
    for label, code in (("ex-a", first), ("ex-b", second)):
        cells += [new_markdown_cell(f"````{{solution-start}} {label}\n:class: dropdown\n````")]
        cells += [new_code_cell(code), new_markdown_cell("````{solution-end}\n````")]
    return new_notebook(cells=[*cells, new_code_cell("assert True")])


def test_two_tested_solutions_are_enough():
    assert rules.too_few_exercises(chapter()) == []


def test_a_solution_that_asserts_nothing_does_not_count():
    problems = ["1 exercises have tested solutions, not 2"]
    assert rules.too_few_exercises(chapter(second="print(x)")) == problems
    nb = chapter()
    del nb.cells[3:6]
    assert rules.too_few_exercises(nb) == problems


@pytest.mark.parametrize(
    "path", ["/" + "work/main/x", "'/" + "tmp/x'", "(/" + "home/me/x)", "C:" + "\\x"]
)
def test_an_absolute_path_is_refused(path):
    assert rules.absolute_paths(f"see\n{path}") == ["line 2: an absolute path of one machine"]


@pytest.mark.parametrize("text", ["book/work/x", "https://example.org/home/x", "a / b", "./tmp/x"])
def test_other_slashes_pass(text):
    assert rules.absolute_paths(text) == []


@pytest.fixture
def small_book(tmp_path):
    (tmp_path / "book" / "_static").mkdir(parents=True)
    for name in ("index.md", "one.md", "_static/licence.md"):
        (tmp_path / "book" / name).write_text("# Page\n", encoding="utf8")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nparts:\n- chapters:\n  - file: book/one\n",
        encoding="utf8",
    )
    return tmp_path


def test_toc_and_files_agree(small_book):
    assert rules.toc_gaps(small_book) == []
    assert [path.name for path in toc.pages(small_book)] == ["index.md", "one.md"]


def test_a_missing_page_is_refused(small_book):
    (small_book / "book" / "one.md").unlink()
    assert rules.toc_gaps(small_book) == ["_toc.yml names book/one, which does not exist"]


def test_a_forgotten_page_is_refused(small_book):
    (small_book / "book" / "two.ipynb").write_text("{}", encoding="utf8")
    assert rules.toc_gaps(small_book) == ["book/two.ipynb is not in _toc.yml"]


def test_an_assignment_is_no_page_and_must_not_become_one(small_book):
    source = small_book / "book" / "assignments" / "source.ipynb"
    source.parent.mkdir()
    source.write_text("{}", encoding="utf8")
    assert rules.toc_gaps(small_book) == []
    with (small_book / "_toc.yml").open("a", encoding="utf8") as contents:
        contents.write("  - file: book/assignments/source\n")
    assert rules.toc_gaps(small_book) == [
        "_toc.yml names book/assignments/source, which holds solutions"
    ]
