"""Experiments: frozen configs, a resumable runner, a store, and rates with intervals."""

from hmoe_lib.experiments.catalogue import EXPERIMENTS, TRUTH_OUTPUT, TRUTH_VALUE, get
from hmoe_lib.experiments.claims import CLAIMS, Claim, Measured, measured
from hmoe_lib.experiments.conditioning import Conditioning, conditioning, search_truth
from hmoe_lib.experiments.config import Experiment, Optimiser, Panel, Start, log_sizes
from hmoe_lib.experiments.density_catalogue import STUDIES, load_study, run_study
from hmoe_lib.experiments.engine import Engine, LostWorkerError
from hmoe_lib.experiments.flat import FlatPanel
from hmoe_lib.experiments.journal import BusyError
from hmoe_lib.experiments.large import LARGE, LargeStudy
from hmoe_lib.experiments.rates import SampleSize, Slope, SlopeTable, samples_needed, slope
from hmoe_lib.experiments.result import ExperimentResult
from hmoe_lib.experiments.routers import (
    ROUTER_STUDIES,
    ROUTERS,
    RouterStudy,
    agreement,
    load_routers,
    paired_interval,
    routing_entropy,
    save_routers,
)
from hmoe_lib.experiments.runner import generator, grid, replicate, run
from hmoe_lib.experiments.store import (
    DamagedResultError,
    StaleResultError,
    load,
    load_measure,
    save,
    save_measure,
)
from hmoe_lib.experiments.truths import declared_truth

__all__ = [
    "CLAIMS",
    "EXPERIMENTS",
    "LARGE",
    "ROUTERS",
    "ROUTER_STUDIES",
    "STUDIES",
    "TRUTH_OUTPUT",
    "TRUTH_VALUE",
    "BusyError",
    "Claim",
    "Conditioning",
    "DamagedResultError",
    "Engine",
    "Experiment",
    "ExperimentResult",
    "FlatPanel",
    "LargeStudy",
    "LostWorkerError",
    "Measured",
    "Optimiser",
    "Panel",
    "RouterStudy",
    "SampleSize",
    "Slope",
    "SlopeTable",
    "StaleResultError",
    "Start",
    "agreement",
    "conditioning",
    "declared_truth",
    "generator",
    "get",
    "grid",
    "load",
    "load_measure",
    "load_routers",
    "load_study",
    "log_sizes",
    "measured",
    "paired_interval",
    "replicate",
    "routing_entropy",
    "run",
    "run_study",
    "samples_needed",
    "save",
    "save_measure",
    "save_routers",
    "search_truth",
    "slope",
]
