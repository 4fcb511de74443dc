"""Experiments: frozen configs, a resumable runner, a store, and rates with intervals."""

from hmoe_lib.experiments.catalogue import EXPERIMENTS, TRUTH_OUTPUT, TRUTH_VALUE, get
from hmoe_lib.experiments.claims import CLAIMS, Claim, Measured, measured
from hmoe_lib.experiments.conditioning import Conditioning, conditioning, search_truth
from hmoe_lib.experiments.config import Experiment, Optimiser, Panel, Start, log_sizes
from hmoe_lib.experiments.density_catalogue import STUDIES, load_study, run_study
from hmoe_lib.experiments.engine import Engine, LostWorkerError
from hmoe_lib.experiments.flat import FlatPanel
from hmoe_lib.experiments.journal import BusyError
from hmoe_lib.experiments.rates import SampleSize, Slope, SlopeTable, samples_needed, slope
from hmoe_lib.experiments.result import ExperimentResult
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
    "LostWorkerError",
    "Measured",
    "Optimiser",
    "Panel",
    "SampleSize",
    "Slope",
    "SlopeTable",
    "StaleResultError",
    "Start",
    "conditioning",
    "declared_truth",
    "generator",
    "get",
    "grid",
    "load",
    "load_measure",
    "load_study",
    "log_sizes",
    "measured",
    "replicate",
    "run",
    "run_study",
    "samples_needed",
    "save",
    "save_measure",
    "search_truth",
    "slope",
]
