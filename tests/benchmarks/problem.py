"""The problem that is timed: Setting I at the catalogue's truth, fitted with K = 4 channels."""

import numpy as np

import hmoe_lib as hl
from hmoe_lib.experiments.catalogue import TRUTH_VALUE

BIAS = 1.0
CHANNELS = 4
MODEL = hl.ValueGated("sigmoid", bias=BIAS)


def data(n: int, seed: int = 0, channels: int = CHANNELS):
    """Return inputs, responses and a start near the truth, as in Figure 1."""
    rng = np.random.default_rng(seed)
    X, y = MODEL.sample(TRUTH_VALUE, n, noise_sd=0.1, rng=rng)
    start = hl.near_truth_start(TRUTH_VALUE, channels, float(n) ** -0.083, rng=rng)
    return X, y, start
