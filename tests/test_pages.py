import numpy as np
import pytest

from hmoe_lib.pages import glue


def test_glue_prints_outside_a_build(monkeypatch, capsys):
    monkeypatch.delenv("HMOE_BOOK_BUILD", raising=False)
    glue("slope", np.float64(-0.5))
    assert capsys.readouterr().out == "slope = -0.5\n"


def test_glue_keeps_python_numbers_in_a_build(monkeypatch, capsys):
    pytest.importorskip("myst_nb", reason="only the book needs myst_nb, and it is not installed")
    kept = []
    monkeypatch.setenv("HMOE_BOOK_BUILD", "1")
    monkeypatch.setattr("myst_nb.glue", lambda *args, **kwargs: kept.append((args, kwargs)))
    glue("slope", np.float64(-0.5))
    assert kept == [(("slope", -0.5), {"display": False})]
    assert type(kept[0][0][1]) is float
    assert capsys.readouterr().out == ""


def test_glue_prints_in_a_build_without_myst_nb(monkeypatch, capsys):
    monkeypatch.setenv("HMOE_BOOK_BUILD", "1")
    monkeypatch.setitem(__import__("sys").modules, "myst_nb", None)
    glue("slope", -0.5)
    assert capsys.readouterr().out == "slope = -0.5\n"
