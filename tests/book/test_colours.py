"""The colours of the figures stay apart for readers who see fewer of them."""

from itertools import combinations

import numpy as np
import pytest

from hmoe_lib.plots import COLOURS

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "full": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# From linear RGB to the cone responses of Ottosson's Oklab (2020), and from their roots to Oklab.
CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
OPPONENT = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]
# A just noticeable difference is about 0.02 in Oklab.
LEAST = 0.08


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def seen(colour: str, sight: str) -> np.ndarray:
    """Place of a colour in Oklab, for a reader of that sight."""
    rgb = np.clip(np.asarray(SIGHT[sight]) @ linear(colour), 0, 1)
    return OPPONENT @ np.cbrt(CONES @ rgb)


def contrast_with_white(colour: str) -> float:
    return 1.05 / (np.dot([0.2126, 0.7152, 0.0722], linear(colour)) + 0.05)


def closest(colours: dict[str, str], sight: str) -> tuple[float, str, str]:
    return min(
        (float(np.linalg.norm(seen(colours[a], sight) - seen(colours[b], sight))), a, b)
        for a, b in combinations(colours, 2)
    )


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_stay_apart(sight):
    assert closest(COLOURS, sight)[0] > LEAST, closest(COLOURS, sight)


@pytest.mark.parametrize("name", COLOURS)
def test_lines_stand_out_from_white(name):
    assert contrast_with_white(COLOURS[name]) > 3


def test_red_and_green_of_one_lightness_are_noticed():
    pair = {"red": "#C04040", "green": "#5F7F30"}
    assert closest(pair, "full")[0] > LEAST > closest(pair, "deuteranopia")[0]


def test_known_values():
    assert np.allclose(seen("#FFFFFF", "full"), [1, 0, 0], atol=1e-3)
    assert np.allclose(seen("#FF0000", "full"), [0.628, 0.225, 0.126], atol=1e-3)
    assert contrast_with_white("#000000") == pytest.approx(21)
