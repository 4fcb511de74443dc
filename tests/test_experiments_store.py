"""Files: whole or absent, refused when stale or damaged."""

import json
from dataclasses import replace

import numpy as np
import pytest

import hmoe_lib as hl
from hmoe_lib.experiments import (
    TRUTH_VALUE,
    DamagedResultError,
    StaleResultError,
    catalogue,
    get,
    load,
    load_measure,
    run,
    runner,
    save,
    save_measure,
    store,
    versions,
)
from hmoe_lib.experiments import journal as journals
from hmoe_lib.experiments.journal import Journal

TINY = replace(
    get("figure1").select("mha-K3"), name="tiny", variant="full", sizes=(200, 300), replicates=2,
    grid=8,
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("HMOE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results"


@pytest.fixture
def result():
    return run(TINY, jobs=1, progress=False)


def test_a_stored_result_comes_back_to_the_last_bit(result, folder):
    npz, about = save(result, folder)
    again = load("tiny", folder, TINY)
    assert again.digest() == result.digest()
    assert again.rows.tobytes() == result.rows.tobytes()
    assert again.config == result.config
    assert again.date == result.date
    assert again.seconds == pytest.approx(result.seconds, abs=1e-4)
    assert load(TINY, folder).digest() == result.digest()
    assert {path.name for path in folder.iterdir()} == {npz.name, about.name}


def test_histories_are_stored(folder):
    result = run(replace(TINY, epochs=(0, 2)), jobs=1, progress=False)
    save(result, folder)
    assert np.array_equal(load(result.config, folder).history, result.history)


def test_the_json_holds_what_a_reader_needs_to_repeat_it(result, folder):
    about = json.loads(save(result, folder)[1].read_text())
    assert about["hash"] == TINY.hash()
    assert about["config"]["sizes"] == [200, 300]
    assert {"numpy", "scipy", "python", "hmoe-lib", "code"} <= about["versions"].keys()
    assert len(about["seconds"]) == 4
    assert about["date"].startswith("20")


def test_the_numbers_file_does_not_depend_on_time(result, folder):
    first = save(result, folder)[0].read_bytes()
    second = save(run(TINY, jobs=1, progress=False), folder / "b")[0].read_bytes()
    assert first == second


def test_a_missing_result_names_what_is_there(result, folder):
    save(result, folder)
    with pytest.raises(FileNotFoundError, match=r"no stored result tony.json .* it holds tiny"):
        load("tony", folder)
    (folder / "tiny.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"no stored result tiny\.npz"):
        load("tiny", folder)


def test_who_installed_a_wheel_learns_where_results_are(tmp_path):
    """Of every kind of result; a wheel has none of them."""
    for read in (load, store.load_arrays):
        with pytest.raises(FileNotFoundError, match=r"it holds nothing .* book/results of its"):
            read("figure1", tmp_path / "none")


def test_a_stale_result_is_refused(result, folder):
    save(result, folder)
    with pytest.raises(StaleResultError, match="tiny: the stored result has config"):
        load("tiny", folder, replace(TINY, noise_sd=0.2))
    load("tiny", folder, replace(TINY, title="only text"))


def test_a_result_older_than_the_catalogue_is_refused(result, folder, monkeypatch):
    monkeypatch.setitem(catalogue.EXPERIMENTS, "tiny", TINY)
    save(result, folder)
    load("tiny", folder)
    monkeypatch.setitem(catalogue.EXPERIMENTS, "tiny", replace(TINY, replicates=3))
    with pytest.raises(StaleResultError, match="run it again"):
        load("tiny", folder)


def flip_a_byte(npz, about):
    content = bytearray(npz.read_bytes())
    content[len(content) // 2] ^= 1
    npz.write_bytes(content)


def cut_the_numbers(npz, about):
    npz.write_bytes(npz.read_bytes()[:-20])


def cut_the_json(npz, about):
    about.write_text(about.read_text()[:-20])


def empty_the_json(npz, about):
    about.write_text("")


def list_in_the_json(npz, about):
    about.write_text("[]")


def other_config(npz, about):
    about.write_text(about.read_text().replace('"noise_sd": 0.1', '"noise_sd": 0.2'))


def impossible_config(npz, about):
    about.write_text(about.read_text().replace('"setting": "mha"', '"setting": "mah"'))


def other_digest(npz, about):
    values = json.loads(about.read_text())
    about.write_text(json.dumps({**values, "digest": "0" * 64}))


def other_format(npz, about):
    about.write_text(about.read_text().replace("hmoe result 1", "hmoe result 0"))


def field_missing(npz, about):
    values = json.loads(about.read_text())
    del values["seconds"]
    about.write_text(json.dumps(values))


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_byte, cut_the_numbers, cut_the_json, empty_the_json, list_in_the_json, other_config,
        impossible_config, other_digest, other_format, field_missing,
    ],
)  # fmt: skip
def test_a_damaged_result_is_refused(result, folder, damage):
    damage(*save(result, folder))
    with pytest.raises(DamagedResultError, match="tiny: the stored result is damaged"):
        load("tiny", folder)


def test_a_pickle_in_the_numbers_is_not_opened(result, folder):
    npz, about = save(result, folder)
    np.savez(npz, rows=np.array([{}], dtype=object), theta=result.theta, allow_pickle=True)
    values = json.loads(about.read_text())
    values["npz_sha256"] = store.hashlib.sha256(npz.read_bytes()).hexdigest()
    about.write_text(json.dumps(values))
    with pytest.raises(DamagedResultError, match="pickle"):
        load("tiny", folder)


def test_a_write_that_fails_leaves_the_old_file(result, folder, monkeypatch):
    npz, _ = save(result, folder)
    before = npz.read_bytes()

    def broken(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(journals.os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        save(result, folder)
    assert npz.read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.json", "tiny.npz"]


# ---- journals ------------------------------------------------------------------------------------


def test_a_journal_keeps_floats_to_the_last_bit():
    journal = Journal(TINY)
    record = {"panel": "p", "loss": 0.1 + 0.2, "theta": [1 / 3, -0.0, 5e-324]}
    journal.append(record)
    assert journal.records() == [record]


@pytest.mark.parametrize("cut", [1, 2, 10, 30])
def test_a_truncated_last_line_is_dropped_and_the_journal_goes_on(cut):
    journal = Journal(TINY)
    for number in range(3):
        journal.append({"replicate": number, "theta": [0.5] * 10})
    journal.path.write_bytes(journal.path.read_bytes()[:-cut])
    kept = [r["replicate"] for r in journal.records()]
    assert kept in ([0, 1], [0, 1, 2])
    assert cut == 1 or kept == [0, 1]
    journal.append({"replicate": 3})
    assert [r["replicate"] for r in journal.records()] == [*kept, 3]


def test_a_changed_line_is_dropped():
    journal = Journal(TINY)
    for number in range(3):
        journal.append({"replicate": number, "loss": 1.5})
    lines = journal.path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"1.5", b"1.6")
    journal.path.write_bytes(b"\n".join(lines))
    assert [r["replicate"] for r in journal.records()] == [0, 2]


def test_journals_of_other_configs_code_and_versions_are_apart(monkeypatch):
    paths = {Journal(TINY).path, Journal(replace(TINY, noise_sd=0.2)).path}
    monkeypatch.setattr(journals, "versions", lambda: {"numpy": "0"})
    paths.add(Journal(TINY).path)
    assert len(paths) == 3


# ---- the cache -----------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Count the replicates that are really computed."""
    calls, honest = [], runner.replicate
    monkeypatch.setattr(
        runner, "replicate", lambda config, *key: calls.append(key) or honest(config, *key)
    )
    return calls


def test_the_cache_pays_once(counted):
    first = run(TINY, jobs=1, progress=False, cache=True)
    second = run(TINY, jobs=1, progress=False, cache=True)
    assert len(counted) == 4
    assert first.digest() == second.digest()
    run(TINY, jobs=1, progress=False)
    assert len(counted) == 8


@pytest.mark.parametrize("change", ["config", "code"])
def test_the_cache_sees_a_change(counted, change, monkeypatch):
    run(TINY, jobs=1, progress=False, cache=True)
    other = replace(TINY, noise_sd=0.2) if change == "config" else TINY
    if change == "code":
        monkeypatch.setattr(journals, "versions", lambda: {"code": "other"})
    run(other, jobs=1, progress=False, cache=True)
    assert len(counted) == 8


def test_a_damaged_cache_is_computed_again(counted, tmp_path):
    run(TINY, jobs=1, progress=False, cache=True)
    (path,) = tmp_path.glob("cache/cached/*/tiny.npz")
    cut_the_numbers(path, None)
    run(TINY, jobs=1, progress=False, cache=True)
    assert len(counted) == 8


def test_the_code_hash_sees_modules_that_compute_and_no_others(tmp_path):
    root = store.Path(store.__file__).parents[1]
    names = {path.relative_to(root).as_posix() for path in versions._modules(root)}
    assert {"measures.py", "voronoi.py", "estimation/starts.py", "experiments/runner.py"} <= names
    assert any(name.startswith("models") for name in names)
    assert not any(name.startswith(("plots", "pages", "identifiability/")) for name in names)
    assert versions.code_hash() == versions.code_hash.__wrapped__()


def test_the_folder_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HMOE_CACHE", str(tmp_path / "chosen"))
    assert journals.cache_folder() == tmp_path / "chosen"
    monkeypatch.delenv("HMOE_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert journals.cache_folder() == tmp_path / ".cache" / "hmoe_lib"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.chdir(tmp_path)
    assert journals.cache_folder() == store.Path(".cache")


# ---- measures ------------------------------------------------------------------------------------


def test_a_measure_comes_back_to_the_last_bit(tmp_path):
    G = hl.HierarchicalMeasure(TRUTH_VALUE.omega / 3, TRUTH_VALUE.M / 3, TRUTH_VALUE.a / 3)
    save_measure(G, tmp_path / "G.json")
    assert load_measure(tmp_path / "G.json") == G
    (tmp_path / "G.json").write_text("{")
    with pytest.raises(ValueError, match="text: expected the JSON of a measure"):
        load_measure(tmp_path / "G.json")
