"""The studies behind the chapters on likelihood: declared, run, stored, loaded."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from hmoe_lib.experiments import store
from hmoe_lib.experiments.checks import one_of
from hmoe_lib.experiments.config import Start, log_sizes
from hmoe_lib.experiments.density_studies import GatedStudy, RelativeStudy, Study
from hmoe_lib.experiments.prompt_studies import PromptStudy
from hmoe_lib.experiments.rates import Slope, slope
from hmoe_lib.experiments.runner import generator
from hmoe_lib.experiments.versions import versions
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = [
    "CENTRED",
    "STUDIES",
    "THREE",
    "StudyResult",
    "load_study",
    "replicate_study",
    "run_study",
]

_LOG = float(np.log(0.25))
# d = 1, two experts that cross, with a gate centred in the window of the inputs.
CENTRED = MixingMeasure([[3.0], [0.0]], [0.3, 0.0], [[-4.0, 2.0, _LOG], [4.0, -2.0, _LOG]])
# d = 1, three experts; two of three are selected everywhere, and every pair somewhere.
THREE = MixingMeasure(
    [[5.0], [-5.0], [0.0]],
    [-1.0, -1.0, 0.0],
    [[-3.0, 2.0, np.log(0.2)], [3.0, 4.0, np.log(0.2)], [0.0, -3.0, np.log(0.2)]],
)
_EXPERTS = [[-3.0, 2.0, 1.5, _LOG], [3.0, 1.0, -1.5, _LOG]]
HEATED = MixingMeasure([[3.0, -2.0], [0.0, 0.0]], [0.4, 0.0], _EXPERTS, [1.0])
ACTIVATED = MixingMeasure([[3.0, -2.0], [-2.0, -3.0]], [0.5, 0.0], _EXPERTS, [0.4])
# Three classes; rows (d_1, l_1, d_2, l_2). A flat expert has no slopes at all.
_SLOPED = [[3.0, 2.0, 0.5, -2.0, 3.0, -0.4], [-3.0, 1.0, -0.6, 1.0, -4.0, 0.7]]
_FLAT = [0.0, 0.0, 0.8, 0.0, 0.0, -0.6]
GOOD = MixingMeasure([[4.0, -3.0], [0.0, 0.0]], [0.3, 0.0], _SLOPED)
BAD = MixingMeasure([[4.0, -3.0], [0.0, 0.0]], [0.3, 0.0], [_FLAT, _SLOPED[1]])

_UP_TO_30 = log_sizes(1000, 31_623, 6)
_HEAT = RelativeStudy(
    "temperature-e0", HEATED, _UP_TO_30, 20, gate="temperature", half=2.0,
    start=Start(0.25, 0.0), curvature="scores",
)  # fmt: skip
_CLASSES = GatedStudy(
    "multinomial-good", GOOD, log_sizes(1000, 31_623, 6), 20, classes=3, half=2.0,
    start=Start(0.3, 0.083),
)  # fmt: skip
_PROMPT = PromptStudy(
    "prompt-apart", "laplace", 0.4, 0.3, (-1.0, 0.0), 0.25, log_sizes(1000, 100_000, 7), 20
)

_ALL: tuple[Study, ...] = (
    GatedStudy("dense-exact", CENTRED, _UP_TO_30, 20, half=2.0),
    GatedStudy("top2-exact", THREE, _UP_TO_30, 20, top=2, true_top=2, start=Start(0.2, 0.083)),
    GatedStudy(
        "dense-over", CENTRED, log_sizes(1000, 56_234, 8), 20, half=2.0, split=0, nodes=True
    ),
    _HEAT,
    replace(_HEAT, name="temperature-e0.083", start=Start(0.25 * 1000**0.083, 0.083)),
    replace(_HEAT, name="temperature-e0.25", start=Start(0.25 * 1000**0.25, 0.25)),
    replace(
        _HEAT, name="activated", truth=ACTIVATED, gate="activated_temperature",
        start=Start(0.1, 0.083), curvature="hessian",
    ),
    _CLASSES,
    replace(_CLASSES, name="multinomial-bad", truth=BAD),
    replace(_CLASSES, name="multinomial-good-tanh", gate="transformed"),
    replace(_CLASSES, name="multinomial-bad-tanh", truth=BAD, gate="transformed"),
    replace(_CLASSES, name="multinomial-over", split=0, runs=15),
    _PROMPT,
    PromptStudy(
        "prompt-fading", "laplace", 1.0, 0.4, (0.0, 1.0), 1.0, log_sizes(10_000, 316_228, 6), 20,
        base=10_000, share_exponent=0.25,
    ),
    PromptStudy(
        "prompt-merging", "normal", 0.1, 0.5, (1.0, 0.0), 0.01, log_sizes(10_000, 316_228, 6), 20,
        away=0.2, eta_exponent=0.125,
    ),
    PromptStudy(
        "prompt-merging-wide", "normal", 0.5, 0.3, (1.0, 0.0), 0.25, log_sizes(1000, 100_000, 7),
        20, away=2.0, eta_exponent=0.125,
    ),
)  # fmt: skip
STUDIES = {study.name: study for study in _ALL}


@dataclass(frozen=True, eq=False)
class StudyResult:
    """What was measured: for each field one number a size and a run.

    Attributes
    ----------
    study : Study
        What was declared.
    values : dict of ndarray, shape (S, R)
        By name of the field.
    cpu_seconds : float
        Time of one core.
    """

    study: Study
    values: dict[str, Array]
    cpu_seconds: float

    @property
    def n(self) -> Array:
        """Sample sizes, (S,)."""
        return np.array(self.study.sizes)

    def slope(self, field: str, statistic: str = "mean", power: float = 1.0) -> Slope:
        """Return the slope of a field, or of a power of it, with a bootstrap interval."""
        one_of("field", field, self.values)
        rng = generator(f"bootstrap of {self.study.name}", 0, 0)
        return slope(self.n, self.values[field] ** power, rng, statistic)


def replicate_study(study: Study, n: int, run: int) -> dict[str, float]:
    """Compute one run: the same numbers as in the whole study."""
    return study.replicate(n, generator(study.name, n, run))


def run_study(name: str | Study, folder: str | Path | None = None) -> StudyResult:
    """Run a study and store it, if a folder is given.

    Parameters
    ----------
    name : str or Study
        A name of STUDIES, or a study.
    folder : str or Path, optional
        Where NAME.npz and NAME.json go.

    Examples
    --------
    >>> tiny = replace(STUDIES["dense-exact"], sizes=(200, 400), runs=1)
    >>> run_study(tiny).values["loss"].shape
    (2, 1)
    """
    study = _known(name)
    began = time.process_time()
    rows = [[replicate_study(study, n, r) for r in range(study.runs)] for n in study.sizes]
    seconds = time.process_time() - began
    values = {key: np.array([[run[key] for run in row] for row in rows]) for key in rows[0][0]}
    if folder is not None:
        about = {
            "format": "hmoe study 1",
            "settings": study.settings(),
            "hash": study.hash(),
            "versions": versions(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "cpu_seconds": round(seconds, 1),
        }
        store.save_arrays(f"study-{study.name}", about, values, folder)
    return StudyResult(study, values, seconds)


def load_study(name: str, folder: str | Path) -> StudyResult:
    """Read a stored study; one that was declared otherwise than today is refused.

    Parameters
    ----------
    name : str
        A name of STUDIES.
    folder : str or Path
        Where it is stored.

    Raises
    ------
    StaleResultError
        If the stored study has other settings.
    DamagedResultError, FileNotFoundError
        If a file is damaged or missing.
    """
    study = _known(name)
    about, values = store.load_arrays(f"study-{study.name}", folder)
    if about["hash"] != study.hash():
        raise store.StaleResultError(f"{name}: stored with other settings; run it again")
    return StudyResult(study, values, about["cpu_seconds"])


def _known(name: str | Study) -> Study:
    if isinstance(name, Study):
        return name
    one_of("study", name, STUDIES)
    return STUDIES[name]
