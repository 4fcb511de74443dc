"""The study of routers: what it measures against loops, and stored blocks that come out again."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmoe_lib.experiments import routers, store
from hmoe_lib.experiments.routers import (
    ROUTER_STUDIES,
    ROUTERS,
    RouterStudy,
    agreement,
    load_routers,
    paired_interval,
    routing_entropy,
)

BOOK = Path(__file__).parents[1] / "book"


def sunspots():
    spots = np.loadtxt(BOOK / "practice/data/sunspots.csv", delimiter=",", skiprows=1)[:, 1]
    return np.c_[spots[1:-1], spots[:-2]], spots[2:]


def nino():
    months = np.loadtxt(BOOK / "practice/data/elnino.csv", delimiter=",", skiprows=1)[:, 1:].ravel()
    angle = 2 * np.pi * np.arange(len(months)) / 12
    return np.c_[months, np.cos(angle), np.sin(angle)][:-3], months[3:]


DATA = {"sunspots": sunspots, "nino": nino}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_agreement_is_the_best_relabelling_and_does_not_see_labels(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.random((2, 30, 3))
    a, b = one.argmax(axis=1), other.argmax(axis=1)
    slow = max(np.mean(np.array(order)[b] == a) for order in permutations(range(3)))
    assert np.isclose(agreement(one, other), slow)
    assert agreement(one, one[:, [2, 0, 1]]) == 1.0
    assert agreement(other, one) == agreement(one, other)


def test_entropy_is_the_loop():
    shares = np.random.default_rng(1).dirichlet(np.ones(4), 20)
    slow = [-sum(s * np.log(s) for s in row) for row in shares]
    assert np.allclose(routing_entropy(shares), slow, rtol=1e-13)
    assert np.allclose(routing_entropy(np.full((1, 4), 0.25)), np.log(4))


def test_parts_leave_every_sample_out_once_a_repeat_and_are_blocks():
    study = RouterStudy("parts", folds=5, repeats=3)
    parts = study.parts(53)
    for repeat in range(3):
        tests = [test for _, test in parts[5 * repeat : 5 * repeat + 5]]
        assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(53))
    for train, test in parts:
        assert np.intersect1d(train, test).size == 0 and len(train) + len(test) == 53
        assert np.all(np.diff(test) % 53 == 1)  # consecutive, around the end
    assert len({tuple(test) for _, test in parts}) == 15


def test_an_interval_of_overlapping_folds_is_wider_than_the_naive_one():
    d = np.random.default_rng(2).standard_normal(20)
    mean, low, high = paired_interval(d, folds=5)
    assert low < mean < high
    naive = 2.093 * d.std(ddof=1) / np.sqrt(20)
    assert np.isclose(mean, d.mean()) and high - mean > 2 * naive
    assert np.isclose(high - mean, naive * np.sqrt(1 + 20 / 4), rtol=1e-3)


def test_a_mixture_beats_a_line_where_there_is_one_and_not_on_noise():
    rng = np.random.default_rng(3)
    study = RouterStudy("bend", experts=2, folds=3, repeats=1, seeds=3)
    X = rng.uniform(-2, 2, (240, 2))
    y = np.where(X[:, 0] > 0, 2.0, -2.0) * X[:, 1] + 0.1 * rng.standard_normal(240)
    for router in ROUTERS:
        cell = study.replicate(X, y, router, 0)
        assert cell["error"] < 0.5 * cell["line"], router
        noise = study.replicate(X, rng.permutation(y), router, 0)
        assert noise["error"] > 0.8 * noise["line"], router


def test_the_norm_of_a_vanilla_cosine_comes_from_its_start():
    X, y = sunspots()
    study = RouterStudy("norms", repeats=1, seeds=8)
    kept = {r: study.replicate(X, y, r, 0)["norm_kept"] for r in ("linear", "cosine")}
    assert kept["cosine"] > 0.4 > 0.3 > abs(kept["linear"])


@pytest.mark.parametrize("name", DATA)
def test_stored_blocks_come_out_again(name):
    """Another processor may end a fit elsewhere along a flat valley: five percent of an error."""
    study, fields = ROUTER_STUDIES[name], load_routers(name, BOOK / "results")
    X, y = DATA[name]()
    assert fields["error"].shape == (len(ROUTERS), study.folds * study.repeats)
    for row, router in enumerate(ROUTERS):
        cell = study.replicate(X, y, router, 7)
        for key in ("error", "train", "line"):
            assert np.isclose(cell[key], fields[key][row, 7], rtol=0.05), (router, key)
        assert not np.isclose(cell["line"], fields["line"][row, 8], rtol=1e-3)


def test_a_study_of_other_settings_is_refused(tmp_path, monkeypatch):
    about, fields = store.load_arrays("routers-nino", BOOK / "results")
    store.save_arrays("routers-nino", about, fields, tmp_path)
    assert np.array_equal(load_routers("nino", tmp_path)["error"], fields["error"])
    monkeypatch.setitem(routers.ROUTER_STUDIES, "nino", RouterStudy("routers-nino", experts=4))
    with pytest.raises(store.StaleResultError, match="nino: stored with other settings"):
        load_routers("nino", tmp_path)


BAD = [
    (lambda: RouterStudy("a", folds=1), "folds: expected an integer >= 2"),
    (lambda: RouterStudy("a").replicate([[1.0]], [1.0], "line", 0), "router: 'line' is not known"),
    (lambda: RouterStudy("a").replicate([1.0], [1.0], "linear", 0), "X: expected finite"),
    (lambda: RouterStudy("a").run([[np.nan]], [1.0]), "X: expected finite"),
    (lambda: agreement([[1.0, 0.0]], [[1.0]]), r"other: expected shape \(1, 2\)"),
    (lambda: paired_interval([1.0], 5), "differences: expected at least two"),
    (lambda: load_routers("moon", BOOK / "results"), "study: 'moon' is not known"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
