"""The package as a whole: light to import, names that resolve, docstrings that explain."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hmoe_lib as hl
from hmoe_lib import attention, estimation, models, voronoi

HEAVY = ("sympy", "flint", "matplotlib", "joblib", "tqdm", "IPython")


def check_import_is_light(statement):
    """Run a statement in a fresh interpreter and look which slow packages came with it."""
    code = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    loaded = run.stdout.split()
    if loaded:
        raise AssertionError(f"{statement!r} imports {', '.join(loaded)}")


def test_the_import_is_light_until_a_wing_is_used():
    check_import_is_light("import hmoe_lib")
    check_import_is_light("import hmoe_lib as hl; hl.ValueGated('sigmoid', bias=1.0); hl.attention")


@pytest.mark.parametrize("wing", ["import sympy", "import hmoe_lib; hmoe_lib.plots"])
def test_a_heavy_import_is_found(wing):
    """Negative control."""
    with pytest.raises(AssertionError, match=r"imports (sympy|matplotlib)"):
        check_import_is_light(wing)


def test_every_public_name_resolves():
    assert len(set(hl.__all__)) == len(hl.__all__)
    for name in hl.__all__:
        assert getattr(hl, name) is not None
    for name in ("pages", "reference"):
        assert inspect.ismodule(getattr(hl, name))
    scope = {}
    exec("from hmoe_lib import *", scope)
    assert set(hl.__all__) <= set(scope)


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match="module 'hmoe_lib' has no attribute 'nothing'"):
        hl.nothing  # noqa: B018
    assert not hasattr(hl, "fit")


@pytest.mark.parametrize(
    "module",
    ["activations", "measures", "blocks", "voronoi", "reference", "models", "models.base",
     "models.formulas", "estimation", "estimation.bounds", "estimation.result",
     "estimation.starts", "estimation.em", "estimation.likelihood", "estimation.density_starts",
     "densities", "cell_losses", "attention"],
)  # fmt: skip
def test_modules_declare_what_they_define(module):
    module = importlib.import_module(f"hmoe_lib.{module}")
    assert module.__doc__.strip().split("\n")[0].endswith((".", ":"))
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert not missing


def test_names_of_the_plan():
    """What others call, with the arguments they use: see the table of public names."""
    wanted = {
        hl.HierarchicalMeasure: "omega M a",
        hl.ValueGated: "phi bias",
        hl.OutputGated: "phi bias",
        hl.Mha.predict: "G X",
        hl.Mha.components: "G X",
        hl.Mha.jacobian: "G X",
        hl.Mha.sample: "G n noise_sd rng",
        hl.voronoi_cells: "model G G_star X",
        hl.voronoi_loss_r: "model G G_star X r",
        hl.voronoi_loss: "model G G_star X",
        hl.fit_least_squares: "model X y start bounds",
        hl.fit_gradient_descent: "model X y start step max_epochs",
        hl.near_truth_start: "G_star channels distance rng",
        hl.attention.multi_head_attention: "X W_Q W_K W_V W_O scale",
        hl.attention.gated_attention: "X W_Q W_K W_V W_O position activation bias multiplicative",
        hl.attention.as_hmoe: "W_Q W_K W_V W_O row column tokens",
    }
    for function, names in wanted.items():
        have = [n for n in inspect.signature(function).parameters if n != "self"]
        assert [n for n in have if n in names.split()] == names.split(), function
    fields = "measure loss status message iterations history converged"
    assert all(
        hasattr(hl.FitResult, f) or f in hl.FitResult.__annotations__ for f in fields.split()
    )


# ---- docstrings ------------------------------------------------------------------------------


def sections(text):
    """Titles of the numpydoc sections of a docstring."""
    return set(re.findall(r"^(\w[\w ]*)\n-{3,}$", text, flags=re.M))


def check_docstring(function):
    """A summary sentence; Parameters with every name, Returns, and Examples that run."""
    text = inspect.getdoc(function) or ""
    summary = text.split("\n\n")[0].replace("\n", " ")
    demanded = {"Parameters", "Returns", "Examples"}
    missing = demanded - sections(text)
    if not summary.endswith(".") or len(summary) > 200:
        raise AssertionError(f"{function.__name__}: no summary sentence")
    if missing:
        raise AssertionError(f"{function.__name__}: sections missing: {sorted(missing)}")
    if ">>> " not in text:
        raise AssertionError(f"{function.__name__}: the example does not run")
    for name in inspect.signature(function).parameters:
        if not re.search(rf"^(\w+, )*{name}(, \w+)*( :|$)", text, flags=re.M):
            raise AssertionError(f"{function.__name__}: parameter {name} is not explained")


def public_functions():
    """Functions of the public tables, each once, in their order."""
    every = [getattr(home, name) for home in (hl, attention, estimation, voronoi)
             for name in home.__all__]  # fmt: skip
    return list(dict.fromkeys(filter(inspect.isfunction, every)))


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f.__name__)
def test_public_functions_have_docstrings_with_examples(function):
    check_docstring(function)


PUBLIC = [hl.Activation, hl.Box, hl.HierarchicalMeasure, hl.Mha, hl.OutputGated, hl.ValueGated]


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_public_classes_have_examples_and_their_methods_a_sentence(kind):
    assert {"Examples"} <= sections(inspect.getdoc(kind)) and ">>> " in inspect.getdoc(kind)
    for name, member in inspect.getmembers(kind):
        if not name.startswith("_") and (callable(member) or isinstance(member, property)):
            text = inspect.getdoc(member) or ""
            assert text.split("\n\n")[0].strip().endswith((".", ")")), f"{kind.__name__}.{name}"


def test_the_result_of_a_fit_explains_every_field_and_status():
    text = inspect.getdoc(hl.FitResult)
    assert "Attributes" in sections(text)
    for name in hl.FitResult.__dataclass_fields__:
        assert re.search(rf"^{name} : ", text, flags=re.M), name
    assert set(estimation.STATUSES) == {
        "converged", "hit bounds", "stalled", "out of steps", "diverged"
    }  # fmt: skip


def test_docstrings_that_explain_nothing_are_found():
    """Negative control: no sentence, no example, a parameter left out."""

    def silent(X):
        pass

    def bare(X):
        """Return X."""

    def partial(X, y):
        """Return X.

        Parameters
        ----------
        X : array

        Returns
        -------
        array

        Examples
        --------
        >>> 1
        1
        """

    for function, message in [
        (silent, "no summary"), (bare, "sections missing"), (partial, "parameter y")
    ]:  # fmt: skip
        with pytest.raises(AssertionError, match=message):
            check_docstring(function)


def test_models_share_one_interface():
    methods = ("predict", "components", "jacobian", "sample", "loss_and_gradient")
    for Model in (hl.Mha, hl.ValueGated, hl.OutputGated, models.KeyGated, models.LayerGated):
        assert issubclass(Model, models.HierarchicalModel)
        for name in methods:
            assert getattr(Model, name) is getattr(models.HierarchicalModel, name)


# ---- size: a module is read in one sitting, a function at a glance -----------------------------


def long_parts(source, module=350, function=40):
    """What is longer than it may be; a function's docstring does not count."""
    if (lines := len(source.splitlines())) > module:
        yield f"{lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            text = first if ast.get_docstring(node, clean=False) is not None else None
            lines = node.end_lineno - node.lineno + 1
            lines -= text.end_lineno - text.lineno + 1 if text else 0
            if lines > function:
                yield f"{node.name} {lines} lines"


MODULES = sorted(Path(hl.__file__).parent.rglob("*.py"))


def test_modules_and_functions_are_short():
    found = {path.name: [*long_parts(path.read_text("utf-8"))] for path in MODULES}
    assert len(found) > 50
    assert not {name: parts for name, parts in found.items() if parts}


def test_long_modules_and_functions_are_found():
    """Negative control."""
    body = "    x = 1\n" * 41
    assert [*long_parts("def f():\n" + body)] == ["f 42 lines"]
    assert not [*long_parts('def f():\n    """' + "a\n" * 60 + '"""\n' + body[:200])]
    assert [*long_parts("x = 1\n" * 351)] == ["351 lines"]
