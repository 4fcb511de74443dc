"""How nbgrader generates, grades and exports this book's assignments; every course loads this.

`make release` writes a course folder with a config of two lines that load this file, so that every
nbgrader command works in that folder as usual.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from classroom.examiner import Examine

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "gated-attention"
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}
c.ClearSolutions.text_stub = "YOUR ANSWER HERE"
c.OverwriteCells.add_missing_cells = True

# Seconds for one cell, for one call from a test, and for a whole notebook. A cell that hardly
# computes gets four times as long, because the grader's own machine may be busy.
c.Execute.timeout = 20
c.Examine.timeout = 20
c.Examine.call_seconds = 10
c.Examine.submission_seconds = 600
c.LimitOutput.max_lines = 200
c.ConfinedKernel.memory_mb = 3000

c.Autograde.autograde_preprocessors = [
    Examine,
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
