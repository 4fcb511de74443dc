"""What a reader does on the built site: searches, goes by keyboard, moves a figure, reads without
scripts, and points at a link to a theorem.
"""

import json

import export_interactive as export
import numpy as np
import pytest
from chromium import ROOT, opened

import hmoe_lib as hl

VORONOI_PAGE = "book/identifiability/measures_and_voronoi.html"
START = "book/welcome/index.html"


def results(browser, site, words: str) -> list[str]:
    with opened(browser, site / "search.html") as (page, _):
        page.evaluate("(words) => Search.performSearch(words)", words)
        page.wait_for_function("document.querySelector('.search-summary')?.textContent.trim()")
        # Sphinx's own mark, _pulse_status, may be set again by its last timer.
        page.wait_for_function("Search.title.innerText === 'Search Results'")
        return page.locator("#search-results li").all_inner_texts()


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("Voronoi loss", "Measures and Voronoi losses"),
        ("Theorem 2", "Theorems 2 and 3"),
        ("φ", "Strong identifiability"),
        ("omega", "Notation"),
        ("L_2", "Theorems 2 and 3"),
        ("backtracking", "Least squares and two optimisers"),
        ("HierarchicalMeasure", "The library"),
    ],
)
def test_search_finds(browser, site, words, title):
    found = results(browser, site, words)
    assert any(title in result for result in found), found


def test_search_shows_no_latex_and_not_everything(browser, site):
    found = results(browser, site, "loss")
    assert found and not [text for text in found if "\\" in text or "$" in text]
    assert results(browser, site, "qwertyuiop") == []
    # Words of LaTeX are no words of the book.
    assert results(browser, site, "mathbb") == results(browser, site, "lVert") == []


def test_every_control_is_reached_and_seen_with_the_tab_key(browser, site):
    with opened(browser, site / START, viewport={"width": 1280, "height": 900}) as (page, _):
        page.keyboard.press("Tab")
        first = page.evaluate("document.activeElement.textContent.trim()")
        assert first == "Skip to main content"
        assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
        reached = set()
        for _ in range(400):
            page.keyboard.press("Tab")
            state = page.evaluate(
                """() => { const a = document.activeElement, style = getComputedStyle(a);
                return [a.tagName, a.getAttribute("href") ?? a.className,
                        style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2]; }"""
            )
            if state[0] == "BODY":
                break
            reached.add(state[1])
            assert state[2], f"no visible focus on {state}"
        links = page.evaluate(
            """[...document.querySelectorAll('.bd-article a[href]:not(.headerlink)')]
            .filter((a) => a.checkVisibility()).map((a) => a.getAttribute('href'))"""
        )
        assert set(links) <= reached


def test_the_skip_link_skips(browser, site):
    with opened(browser, site / START) as (page, _):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("!!document.activeElement.closest('main')")


def test_a_theorem_is_shown_where_it_is_mentioned(browser, site):
    with opened(browser, site / "book/identifiability/activation_atlas.html") as (page, found):
        link = page.locator(
            ".bd-article a.internal[href*='#thm-'], .bd-article a.internal[href*='#def-']"
        )
        link.first.focus()
        page.wait_for_selector(".preview mjx-container, .preview p")
        page.keyboard.press("Escape")
        assert page.locator(".preview").count() == 0
        assert found == []


def test_without_scripts_the_page_reads(browser, site):
    with opened(browser, site / VORONOI_PAGE, java_script_enabled=False) as (page, _):
        text = page.locator("article").inner_text()
        assert "A fitted channel" in text and r"\(" in text
        for name in ("split", "voronoi"):
            assert page.locator(f"[data-figure={name}] img.fallback").is_visible()
            assert not page.locator(f"[data-figure={name}] .stage").is_visible()


def test_mathml_is_kept_for_screen_readers(browser, site):
    with opened(browser, site / VORONOI_PAGE) as (page, _):
        formulas, read = (
            page.locator(f"mjx-container{inside}").count()
            for inside in ("", " mjx-assistive-mml > math")
        )
        assert formulas == read > 50


def screens_to(page, place) -> float:
    """How many screens lie between the top of what is shown and a place, which then is shown."""
    before = page.evaluate("scrollY")
    place.scroll_into_view_if_needed()
    box, height = place.bounding_box(), page.viewport_size["height"]
    return (page.evaluate("scrollY") - before + box["y"]) / height


def test_on_a_phone_theorem_2_and_its_test_are_found(browser, site):
    """From the first page by links that are seen: a reader passes a few screens, not the book."""
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
    with opened(browser, site / START, **phone) as (page, found):
        passed = 0
        for name in ("map of the book", "Theorems 2 and 3: what a gate reveals"):
            link = page.locator(".bd-article a", has_text=name).last
            passed += screens_to(page, link)
            link.tap()
            page.wait_for_timeout(1000)
        assert "theorems_2_and_3" in page.url
        passed += screens_to(page, page.locator("#thm-2-3"))
        assert "Theorems 2 and 3 of the paper" in page.locator("#thm-2-3").inner_text()
        page.evaluate("scrollTo(0, 0)")
        link = page.locator(".before a", has_text="Figure 1").first
        passed += screens_to(page, link)
        link.tap()
        page.wait_for_url("**/figure1.html")
        assert passed < 8
        assert found == []


# ---- Figures that move: a state is compared with what the library says of it -------------------


def measure(state: dict) -> hl.HierarchicalMeasure:
    return hl.HierarchicalMeasure(state["omega"], state["M"], state["a"])


def set_slider(page, figure: str, n: int, value: float) -> None:
    page.locator(f"[data-figure={figure}] input[type=range]").nth(n).fill(str(value))


def assert_split_is_right(page) -> None:
    state = page.evaluate("document.querySelector('[data-figure=split]').state")
    G = export.split(state["v"])
    assert np.allclose(G.to_vector(), measure(state["G"]).to_vector(), atol=1e-12)
    numbers = export.numbers(G, export.SPLIT_TRUTH, np.array(export.export_split()["points"]))
    assert state["distance"] == pytest.approx(numbers["distance"], abs=1e-12)
    assert state["losses"] == pytest.approx(numbers["losses"]["plain attention"], abs=1e-10)
    said = page.locator("[data-figure=split] .numbers").inner_text()
    assert f"{state['losses']['one']:.3f}" in said
    assert f"{state['distance']['Setting I']:.4f}" in said


def test_a_split_expert_is_dragged(browser, site):
    with opened(browser, site / VORONOI_PAGE, viewport={"width": 1280, "height": 900}) as (
        page,
        found,
    ):
        assert_split_is_right(page)
        before = page.evaluate("document.querySelector('[data-figure=split]').state.v.slice()")
        dot = page.locator("[data-figure=split] circle.half.first")
        dot.scroll_into_view_if_needed()
        box = dot.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 40, y - 25, steps=4)
        page.mouse.up()
        after = page.evaluate("document.querySelector('[data-figure=split]').state")
        assert after["v"][0] < before[0] - 0.5 and after["v"][1] > before[1] + 0.3
        assert after["distance"]["plain attention"] < 1e-12 < after["distance"]["Setting I"]
        assert_split_is_right(page)
        set_slider(page, "split", 0, 0)
        set_slider(page, "split", 1, 0)
        assert_split_is_right(page)
        assert page.evaluate("document.querySelector('[data-figure=split]').state.losses.two") == 0
        assert found == []


def test_the_split_is_moved_with_the_keyboard(browser, site):
    with opened(browser, site / VORONOI_PAGE) as (page, _):
        page.locator("[data-figure=split] input[type=range]").first.focus()
        before = page.evaluate("document.querySelector('[data-figure=split]').state.v[0]")
        page.keyboard.press("ArrowRight")
        after = page.evaluate("document.querySelector('[data-figure=split]').state.v[0]")
        assert after == pytest.approx(before + 0.1)
        assert_split_is_right(page)


def assert_cells_are_right(page) -> dict:
    state = page.evaluate("document.querySelector('[data-figure=voronoi]').state")
    G, truth = (measure(state["measures"][kind]) for kind in ("fit", "truth"))
    numbers = export.numbers(G, truth, export.VORONOI_LINE)
    assert state["cells"] == numbers["cells"][state["model"]]
    assert state["losses"] == pytest.approx(numbers["losses"][state["model"]], abs=1e-10)
    return state


def test_atoms_and_cells_move(browser, site):
    with opened(browser, site / VORONOI_PAGE, viewport={"width": 1280, "height": 900}) as (
        page,
        found,
    ):
        first = assert_cells_are_right(page)
        page.locator("[data-figure=voronoi] select").nth(0).select_option("Setting I")
        assert assert_cells_are_right(page)["losses"] != {}
        page.locator("[data-figure=voronoi] select").nth(1).select_option("true 3")
        set_slider(page, "voronoi", 0, 5)
        set_slider(page, "voronoi", 1, -1)
        moved = assert_cells_are_right(page)
        assert moved["cells"] != first["cells"]
        mark = page.locator("[data-figure=voronoi] .mark.fitted rect").last
        mark.scroll_into_view_if_needed()
        box = mark.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 120, y + 60, steps=4)
        page.mouse.up()
        dragged = assert_cells_are_right(page)
        assert dragged["measures"]["fit"]["a"] != moved["measures"]["fit"]["a"]
        assert found == []


def page_of(site, name: str):
    """The page that holds a figure, wherever its chapter is."""
    marked = f'data-figure="{name}"'
    found = [p for p in site.glob("book/**/*.html") if marked in p.read_text(encoding="utf8")]
    assert found, f"no page has the figure {name}"
    return found[0]


def test_every_pair_of_the_atlas_is_shown(browser, site):
    stored = json.loads((ROOT / "book/_static/atlas.json").read_text(encoding="utf8"))
    with opened(browser, page_of(site, "atlas")) as (page, found):
        gate, expert = page.locator("[data-figure=atlas] select").all()
        for name in stored["gates"]:
            gate.select_option(name)
            for other in stored["experts"][::3]:
                expert.select_option(other)
                cell = stored["cells"][name][other]
                said = page.locator("[data-figure=atlas] .numbers").inner_text()
                assert said == f"{name} with {other}: {cell['word']}."
                shown = page.locator("[data-figure=atlas] .verdict").inner_text()
                assert f"{cell['rank']} of {cell['functions']} functions" in shown
                assert page.locator("[data-figure=atlas] .verdict code").inner_text() == cell["u"]
        expert.focus()
        page.keyboard.press("ArrowDown")
        assert found == []


def test_slopes_of_starts_and_fits(browser, site):
    with opened(browser, page_of(site, "starts")) as (page, found):
        select = page.locator("[data-figure=starts] select")
        spoken = set()
        for choice in select.locator("option").all_inner_texts():
            select.select_option(choice)
            shown = page.evaluate("document.querySelector('[data-figure=starts]').state.shown")
            assert {panel["setting"] for panel in shown} == set(export.SETTINGS.values())
            said = page.locator("[data-figure=starts] .numbers").inner_text()
            for panel in shown:
                for value in (panel["start"]["slope"][0], panel["fit"]["slope"][0]):
                    assert f"{value:.2f}".replace("-", "\N{MINUS SIGN}") in said
            spoken.add(said)
        assert len(spoken) == select.locator("option").count()
        assert found == []


def test_the_models_in_the_browser_are_those_of_the_library(browser, tmp_path):
    """On random measures with several heads, which no figure shows."""
    rng = np.random.default_rng(3)
    script = (ROOT / "book/_static/interactive/common.js").read_text(encoding="utf8")
    page = browser.new_page()
    page.evaluate(script)
    for _ in range(10):
        M = rng.standard_normal((2, 3, 2, 2))
        M = M + M.swapaxes(2, 3)
        M[:, -1] = 0
        truth = hl.HierarchicalMeasure(
            rng.uniform(1, 2, (2, 2)), M, rng.standard_normal((2, 3, 2, 2))
        )
        G = hl.HierarchicalMeasure(
            rng.uniform(1, 2, (2, 4)), M[::-1], rng.standard_normal((2, 3, 4, 2))
        )
        X = rng.uniform(-1, 1, (30, 2))
        numbers = export.numbers(G, truth, X)
        for name, (model, activation, _) in export.MODELS.items():
            found = page.evaluate(
                """([G, truth, X, phi]) => { const f = book.activation[phi]; return {
                predict: book.predict(G, X, f), losses: book.losses(G, truth, X, f),
                cells: book.cells(G, truth, X, f)}; }""",
                [export.as_lists(G), export.as_lists(truth), X.tolist(), activation],
            )
            assert np.allclose(found["predict"], model.predict(G, X), atol=1e-12)
            assert found["losses"] == pytest.approx(numbers["losses"][name], abs=1e-10)
            assert found["cells"] == numbers["cells"][name]
    page.close()


def leaves(data, place: str = "") -> dict:
    """Every number and word of a nested structure, by its place."""
    if isinstance(data, dict | list):
        rows = data.items() if isinstance(data, dict) else enumerate(data)
        return {k: v for key, part in rows for k, v in leaves(part, f"{place}/{key}").items()}
    return {place: data}


@pytest.mark.parametrize("name", sorted(export.FIGURES))
def test_what_a_figure_starts_from_is_what_the_library_writes(name):
    text = (ROOT / f"book/_static/interactive/{name}.json").read_text(encoding="utf8")
    written = leaves(json.loads(text))
    today = leaves(json.loads(json.dumps(export.FIGURES[name][0]())))
    assert written.keys() == today.keys()
    for place, value in today.items():
        # Other machines may differ in the last bits.
        assert written[place] == (value if isinstance(value, str) else pytest.approx(value)), place
