"""The tool behind `make release` and `make grade`: nbgrader, with student code kept apart.

`student_version` takes solutions and hidden tests out of a notebook, `release` runs nbgrader's
generate, `collect` reads what students handed in, `grade` runs nbgrader's autograde and feedback
for many at once. `examiner` runs the tests of a notebook in a process of its own, `kernel` starts
the students' one with limits, and `messages` is all that the two say to each other.
"""

import sys

# jsonschema would use it to check the format of addresses; it builds its grammars when imported,
# which takes three seconds in every process, and no notebook needs them.
sys.modules.setdefault("rfc3987_syntax", None)
