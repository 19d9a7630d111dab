"""A saved model: everything comes back, nothing damaged is read, and whatever happens one whole model is there."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import learned_bytes, start_python

import ocular
from ocular import Interactions, OCuLaR
from ocular.artifact import read_manifest
from ocular.errors import ArtifactError
from ocular.evidence import EvidenceConfig

FILES = ["arrays.npz", "clients.parquet", "manifest.json", "products.parquet"]
NAMES = ["Müller & Söhne", "東京商事", 'O\'Brien "Ltd"', "a,b\tc", "🚲 Räder", ""]


def purchases(**changes: Any) -> Interactions:
    """Six clients with awkward names, four numbered products, repeated purchases and every kind of attribute."""
    return Interactions.from_pairs(
        **{
            "users": [0, 0, 1, 1, 2, 2, 3, 3, 4, 0],
            "items": [0, 1, 0, 1, 2, 3, 2, 3, 2, 0],
            "user_labels": NAMES,
            "item_labels": [10, 20, 30, 40],
            "price": [1.5, 2.5, np.nan, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
            "quantity": np.arange(10.0),
            "time": ["2024-01-01T10:00:00", "NaT", *["2024-02-29"] * 8],
            "user_attributes": {
                "country": np.array(["Chile", None, "España", "", "Peru", "Chile"], dtype=object),
                "size": np.array([1.0, np.nan, 3.0, 4.0, 5.0, 6.0]),
                "name": np.array(["an", "attribute", "called", "name", "too", "!"], dtype=object),
            },
            "item_attributes": {"stock": np.array([3, 2, 1, 0]), "new": np.array([True, False, True, False])},
        }
        | changes
    )


def fitted(data: Interactions, **changes: Any) -> OCuLaR:
    return OCuLaR(
        **{"n_coclusters": 2, "regularization": 0.1, "tol": 0.0, "max_iter": 20, "random_state": 3, **changes}
    ).fit(data)


@pytest.fixture(scope="module")
def original() -> OCuLaR:
    return fitted(purchases(), bias=True)


@pytest.fixture
def saved(original: OCuLaR, tmp_path: Path) -> Path:
    path = tmp_path / "model"
    original.save(path)
    return path


def assert_same_answers(one: OCuLaR, other: OCuLaR) -> None:
    n_users, n_items = one.interactions_.shape
    for options in ({}, {"filter_already_liked_items": False}, {"recalculate_user": True}):
        for ours, theirs in zip(
            one.recommend(np.arange(n_users), N=n_items, **options),
            other.recommend(np.arange(n_users), N=n_items, **options),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)
    for u in range(min(n_users, 6)):
        for i in range(min(n_items, 6)):
            assert one.explain(u, i).text() == other.explain(u, i).text()
            assert one.explain(u, i).to_dict() == other.explain(u, i).to_dict()
    np.testing.assert_array_equal(one.similar_items(0)[0], other.similar_items(0)[0])
    np.testing.assert_array_equal(one.rows_, other.rows_)


# --------------------------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize(
    "changes",
    [{}, {"bias": True}, {"relative": True}, {"min_value": 1.0, "n_threads": 2}],
    ids=["ocular", "bias", "relative", "options"],
)
def test_what_was_learned_comes_back(tmp_path: Path, changes: dict[str, Any]) -> None:
    model = fitted(purchases(), **changes)
    model.save(str(tmp_path / "model"))
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == FILES
    loaded = ocular.load(str(tmp_path / "model"))
    assert learned_bytes(loaded) == learned_bytes(model)
    for name in ("objective_", "n_iter_", "converged_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    for name in ("user_factors_", "item_factors_", "user_bias_", "item_bias_"):
        assert getattr(loaded, name).dtype == getattr(model, name).dtype
        assert getattr(loaded, name).shape == getattr(model, name).shape
    chosen = {name: getattr(model.evidence_config_, name) for name in EvidenceConfig.__dataclass_fields__}
    assert loaded.get_params() == model.get_params() | chosen  # what was None is what it stood for
    assert_same_answers(loaded, model)


def test_the_purchases_come_back(original: OCuLaR, saved: Path) -> None:
    ours, theirs = ocular.load(saved).interactions_, original.interactions_
    assert ours.shape == theirs.shape
    assert ours.fingerprint() == theirs.fingerprint()
    assert ours.user_labels.tolist() == NAMES
    assert ours.item_labels.tolist() == [10, 20, 30, 40]
    assert ours.user_index("東京商事") == 1
    assert ours.item_index(30) == 2
    assert ours.purchases is not None
    assert theirs.purchases is not None
    np.testing.assert_array_equal(ours.purchases.pair, theirs.purchases.pair)
    assert ours.purchases.columns.keys() == {"price", "quantity", "time"}
    for name, values in theirs.purchases.columns.items():
        np.testing.assert_array_equal(ours.purchases.columns[name], values)
        assert ours.purchases.columns[name].dtype == values.dtype
    for side in ("user_attributes", "item_attributes"):
        given, loaded = getattr(theirs, side), getattr(ours, side)
        assert list(loaded) == list(given)
        for name, values in given.items():
            np.testing.assert_array_equal(loaded[name], values)
            assert loaded[name].dtype == values.dtype


@pytest.mark.parametrize("currency", ["", "£", "EUR "])
def test_the_currency_comes_back(tmp_path: Path, currency: str) -> None:
    fitted(purchases(currency=currency)).save(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model").interactions_.purchases
    assert loaded is not None
    assert loaded.currency == currency


def test_a_plain_matrix_comes_back_without_amounts(tmp_path: Path, bought: NDArray[np.int64]) -> None:
    model = fitted(Interactions.from_matrix(bought))
    model.save(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model")
    assert loaded.interactions_.purchases is None
    assert loaded.interactions_.user_attributes == {}
    assert loaded.interactions_.user_labels.tolist() == list(range(60))
    assert_same_answers(loaded, model)


def test_a_loaded_model_can_be_fitted_again_and_saved_again(original: OCuLaR, saved: Path, tmp_path: Path) -> None:
    loaded = ocular.load(saved)
    loaded.save(tmp_path / "again")
    assert learned_bytes(ocular.load(tmp_path / "again")) == learned_bytes(original)
    assert learned_bytes(loaded.fit(loaded.interactions_)) == learned_bytes(original)


def test_a_model_moves_with_its_folder(original: OCuLaR, saved: Path, tmp_path: Path) -> None:
    moved = tmp_path / "somewhere" / "else"
    moved.parent.mkdir()
    saved.rename(moved)
    assert learned_bytes(ocular.load(moved)) == learned_bytes(original)


def test_the_manifest_tells_what_it_is(original: OCuLaR, saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["format"] == "ocular-model"
    assert manifest["ocular"] == ocular.__version__
    assert manifest["data"] == {"clients": 6, "products": 4, "pairs": 9, "currency": ""}
    assert manifest["parameters"]["n_coclusters"] == 2
    assert manifest["fit"]["objective_values"] == original.history_
    assert read_manifest(saved) == manifest


def test_a_start_and_a_generator_are_not_saved(tmp_path: Path) -> None:
    data = purchases()
    model = fitted(data, init=(np.ones((6, 2)), np.eye(4, 2)), random_state=np.random.RandomState(0))
    model.save(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model")
    assert learned_bytes(loaded) == learned_bytes(model)
    assert_same_answers(loaded, model)


def test_parameters_set_after_the_fit_do_not_spoil_the_file(tmp_path: Path) -> None:
    model = fitted(purchases())
    before, answer = learned_bytes(model), model.recommend(np.arange(6), N=2)
    model.set_params(n_coclusters=9, background=0.3).save(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model")
    assert learned_bytes(loaded) == before
    assert loaded.item_factors_.shape == (4, 2)
    np.testing.assert_array_equal(loaded.recommend(np.arange(6), N=2)[1], answer[1])


def rewrite_arrays(path: Path, change: Callable[[dict[str, NDArray[Any]]], dict[str, NDArray[Any]]]) -> None:
    """Replace arrays.npz as a program would that knows the format, digests and all."""
    with np.load(path / "arrays.npz") as file:
        arrays = change({name: file[name] for name in file.files})
    np.savez(path / "arrays.npz", **arrays)
    content = (path / "arrays.npz").read_bytes()
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change_manifest(path, lambda manifest: manifest["files"].update({"arrays.npz": entry}), sign=True)


PURCHASES = ("pair", "price", "quantity", "time")


def to_version_1(path: Path) -> None:
    """Turn a saved model into what the first version of the format would have written."""

    def to_old_names(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        arrays.pop("excluded_items")
        arrays = {name: values for name, values in arrays.items() if not name.startswith(("links_", "peers_"))}
        old = {f"interactions_{name}": f"purchases_{name}" for name in PURCHASES}
        old |= {f"interactions_{name}": f"history_{name}" for name in ("indptr", "indices")}
        return {old.get(name, name): values for name, values in arrays.items()}

    def to_old_manifest(manifest: dict[str, Any]) -> None:
        manifest["version"] = 1
        del manifest["evidence"]
        manifest["fit"]["history"] = manifest["fit"].pop("objective_values")

    rewrite_arrays(path, to_old_names)
    change_manifest(path, to_old_manifest, sign=True)
    with np.load(path / "arrays.npz") as file:
        assert {"history_indptr", "history_indices"} < set(file.files)


@pytest.mark.parametrize("with_amounts", [True, False])
def test_a_model_of_the_first_version_of_the_format_is_read(tmp_path: Path, with_amounts: bool) -> None:
    data = purchases() if with_amounts else Interactions.from_matrix(np.eye(6, 4) + np.eye(6, 4, 1))
    model = fitted(data, bias=True)
    model.save(tmp_path / "model")
    to_version_1(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model")
    assert learned_bytes(loaded) == learned_bytes(model)
    assert_same_answers(loaded, model)
    assert loaded.interactions_.arrays().keys() == data.arrays().keys()
    for name, values in data.arrays().items():
        np.testing.assert_array_equal(loaded.interactions_.arrays()[name], values)
    assert not loaded.excluded_items_.any()
    assert loaded.evidence_config_.is_patterns_only
    assert loaded.tuning_ is None
    refit = OCuLaR(2, "auto", links=1.0, bias=True, random_state=0, tol=0.0, max_iter=3).fit(data, start=loaded)
    assert refit.config_.regularization == model.config_.regularization
    assert refit.links_.nnz > 0
    loaded.save(tmp_path / "model")  # and it is saved as the present version
    assert read_manifest(tmp_path / "model")["version"] == 2


def test_what_the_fit_excluded_comes_back(tmp_path: Path) -> None:
    data = purchases()
    model = OCuLaR(2, 0.1, tol=0.0, max_iter=20, random_state=3).fit(data, without=[20, 40])
    model.save(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model")
    assert loaded.excluded_items_.tolist() == [False, True, False, True]
    assert loaded.excluded_items_.dtype == np.bool_
    assert_same_answers(loaded, model)
    rewrite_arrays(tmp_path / "model", lambda arrays: arrays | {"excluded_items": np.zeros(3, dtype=bool)})
    refused(tmp_path / "model", "excluded_items of shape (3,)")


# ----------------------------------------------------------------------------------------------------- saving over it


def test_saving_over_an_older_model_replaces_it(saved: Path) -> None:
    other = fitted(purchases(), random_state=8, n_coclusters=3)
    other.save(saved)
    assert [file.name for file in saved.parent.iterdir()] == ["model"]  # nothing is left beside it
    assert learned_bytes(ocular.load(saved)) == learned_bytes(other)
    assert sorted(file.name for file in saved.iterdir()) == FILES


def test_an_empty_folder_and_missing_parents_are_fine(original: OCuLaR, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b" / "model"):
        original.save(path)
        assert learned_bytes(ocular.load(path)) == learned_bytes(original)


@pytest.mark.parametrize(
    "fill",
    [
        pytest.param(lambda path, _: (path.mkdir(), (path / "thesis.docx").write_text("mine")), id="folder"),
        pytest.param(lambda path, _: path.write_text("mine"), id="file"),
        pytest.param(
            lambda path, _: (
                path.mkdir(),
                (path / "manifest.json").write_text('{"manifest_version": 3}'),
                (path / "app.js").write_text("mine"),
            ),
            id="folder-with-another-manifest",
        ),
        pytest.param(
            lambda path, model: (model.save(path), (path / "notes.txt").write_text("mine")), id="model-and-more"
        ),
    ],
)
def test_what_is_no_model_is_not_overwritten(
    original: OCuLaR, tmp_path: Path, fill: Callable[[Path, OCuLaR], Any]
) -> None:
    path = tmp_path / "target"
    fill(path, original)
    before = contents(path)
    with pytest.raises(ArtifactError, match="target"):
        original.save(path)
    assert contents(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["target"]


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_saving_through_a_link_works_again_and_again(original: OCuLaR, saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(saved, target_is_directory=True)
    for _ in range(3):
        original.save(link)
        assert learned_bytes(ocular.load(link)) == learned_bytes(original)


def test_a_place_that_can_not_be_written_is_one_clear_error(original: OCuLaR, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ArtifactError, match="model") as caught:
        original.save(tmp_path / "file" / "model")
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------------- damage


def refused(path: Path, *names: str) -> str:
    with pytest.raises(ArtifactError) as caught:
        ocular.load(path)
    message = str(caught.value)
    assert "\n" not in message
    for name in names:
        assert name in message
    return message


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused(saved: Path, name: str, share: float) -> None:
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[: int(share * len(content))])
    refused(saved, str(saved / name))


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_refused_wherever_it_is(saved: Path, name: str) -> None:
    content = (saved / name).read_bytes()
    rng = np.random.default_rng(0)
    for place in (0, len(content) - 2, *rng.integers(len(content) - 1, size=40)):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        (saved / name).write_bytes(changed)
        refused(saved, str(saved / name))


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused(saved: Path, name: str) -> None:
    (saved / name).unlink()
    refused(saved, str(saved), name)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    assert "without manifest.json; `ocular fit" in refused(tmp_path / "nowhere", str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("client,product\n")
    refused(tmp_path / "file", str(tmp_path / "file"))
    refused(tmp_path, str(tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file"]


def change_manifest(path: Path, change: Callable[[dict[str, Any]], Any], *, sign: bool) -> None:
    """Change it as a person would (and be found out), or `sign` it again as a program would."""
    manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    change(manifest)
    if sign:
        manifest.pop("digest")
        manifest["digest"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_a_manifest_signed_here_is_accepted(original: OCuLaR, saved: Path) -> None:
    """So that the refusals below have the reasons that they say."""
    change_manifest(saved, lambda manifest: manifest.update(remark="mine"), sign=True)
    assert learned_bytes(ocular.load(saved)) == learned_bytes(original)


def test_a_newer_version_is_refused(saved: Path) -> None:
    change_manifest(saved, lambda manifest: manifest.update(version=3), sign=True)
    message = refused(saved, str(saved / "manifest.json"))
    assert "version 3 of the format, this ocular reads up to 2; upgrade ocular" in message


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: m["parameters"].update(background=0.5), id="parameter"),
        pytest.param(lambda m: m["fit"].update(bias=3.0), id="bias"),
        pytest.param(lambda m: m["files"].pop("clients.parquet"), id="file-list"),
        pytest.param(lambda m: m.pop("digest"), id="digest"),
    ],
)
def test_a_changed_manifest_is_refused(saved: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    change_manifest(saved, change, sign=False)
    assert "was changed after it was written" in refused(saved, str(saved / "manifest.json"))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: m.update(format="ocular-checkpoint"), id="format"),
        pytest.param(lambda m: m.update(version="new"), id="version"),
        pytest.param(lambda m: m["parameters"].update(n_coclusters=1), id="coclusters"),
        pytest.param(lambda m: m["parameters"].update(magic=True), id="unknown-parameter"),
        pytest.param(lambda m: m["fit"].update(objective_values=[]), id="no-sweeps"),
        pytest.param(lambda m: m.pop("parameters"), id="no-parameters"),
        pytest.param(lambda m: m.pop("fit"), id="no-fit"),
        pytest.param(lambda m: m.pop("files"), id="no-files"),
        pytest.param(lambda m: m["files"].pop("products.parquet"), id="file-not-listed"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(saved: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    change_manifest(saved, change, sign=True)
    refused(saved, str(saved))


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_nothing_is_ever_unpickled(saved: Path, tmp_path: Path) -> None:
    crater = tmp_path / "crater"
    make, arguments = Bomb(crater).__reduce__()  # what unpickling would call
    make(*arguments)
    crater.rmdir()  # it works
    with np.load(saved / "arrays.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays["user_bias"] = np.array([Bomb(crater)] * 6, dtype=object)
    np.savez(saved / "arrays.npz", **arrays)
    content = (saved / "arrays.npz").read_bytes()
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change_manifest(saved, lambda manifest: manifest["files"].update({"arrays.npz": entry}), sign=True)
    refused(saved, str(saved))
    assert not crater.exists()


# ------------------------------------------------------------------------------------------- full disk, kill, power cut


def test_a_model_can_be_loaded_while_another_is_saved_over_it(
    original: OCuLaR, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web server reads the model at the worst moments: right before and after every rename."""
    new, real, seen = fitted(purchases(), random_state=8), os.rename, []

    def rename(*arguments: Any, **options: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", real)
            seen.append(learned_bytes(ocular.load(saved)))
            real(*arguments, **options)
            seen.append(learned_bytes(ocular.load(saved)))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        new.save(saved)
    assert learned_bytes(ocular.load(saved)) == learned_bytes(new)
    assert all(one in (learned_bytes(original), learned_bytes(new)) for one in seen)


@pytest.mark.parametrize(("name", "nth"), [("fsync", 1), ("fsync", 2), ("rename", 1), ("rename", 2)])
def test_an_error_while_saving_leaves_the_old_model(
    original: OCuLaR, saved: Path, monkeypatch: pytest.MonkeyPatch, name: str, nth: int
) -> None:
    """A disk may turn out to be full only when its files are flushed or renamed."""
    new, before, real, calls = fitted(purchases(), random_state=8), contents(saved), getattr(os, name), []

    def fail(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(ArtifactError) as caught:
            new.save(saved)
    assert str(caught.value) == f"could not write {saved}: No space left on device; what was there before is whole"
    assert contents(saved) == before
    assert [file.name for file in saved.parent.iterdir()] == ["model"]
    assert learned_bytes(ocular.load(saved)) == learned_bytes(original)


PREPARE = """
import os, signal, sys
from pathlib import Path
from ocular.artifact import read_model, write_model
from ocular.errors import ArtifactError

folder = Path(sys.argv[1])

def given():
    # in the process that writes: polars' threads do not survive a fork
    return read_model(folder / "arguments")

def in_a_process_of_its_own(work):
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    return os.waitpid(child, 0)[1]
"""

# files may not grow beyond a limit: what a full disk does, for any user and without mounting one
SAVE_WITH_LITTLE_SPACE = (
    PREPARE
    + """
import resource

def save(limit):
    model = given()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        write_model(folder / "model", model)
    except Exception as error:
        print(type(error).__name__, error, flush=True)

for limit in map(int, sys.argv[2:]):
    in_a_process_of_its_own(lambda: save(limit))
"""
)

# SIGKILL right before the n-th change of a file, folder or name, for every n
SAVE_AND_DIE = (
    PREPARE
    + """
CHANGES = {"os.mkdir", "os.rename", "os.chmod", "os.remove", "os.rmdir", "shutil.rmtree", "os.link", "os.symlink"}

def save(target, n):
    model, left = given(), n
    def watch(event, arguments):
        nonlocal left
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    write_model(target, model)

n = 1
while in_a_process_of_its_own(lambda: save(folder / f"target{n}" / "model", n)) != 0:
    n += 1
print(n)
"""
)

SAVE_FOR_EVER = (
    PREPARE
    + """
model = given()
print("ready", flush=True)
while True:
    write_model(Path(sys.argv[2]), model)
"""
)

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")


@pytest.fixture
def save_elsewhere(tmp_path: Path) -> Callable[[OCuLaR], None]:
    """Hands a model to the processes of this test, which write its parts again; they need no estimator."""
    return lambda model: model.save(tmp_path / "arguments")


@posix
def test_a_full_disk_leaves_the_old_model(
    original: OCuLaR, saved: Path, tmp_path: Path, save_elsewhere: Callable[[OCuLaR], None]
) -> None:
    rng = random.Random(0)
    long = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000)) for _ in range(6)]
    save_elsewhere(fitted(purchases(user_labels=long)))
    before = contents(saved)
    limits = 0, 100, 50_000  # no space at all, some, enough for the arrays but not for the names
    process = start_python(SAVE_WITH_LITTLE_SPACE, tmp_path, *limits)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert contents(saved) == before
    assert learned_bytes(ocular.load(saved)) == learned_bytes(original)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["arguments", "model"]
    messages = out.splitlines()
    assert len(messages) == len(limits)
    for line in messages:
        assert line.startswith(f"ArtifactError could not write {saved}: ")
        assert line.endswith("; what was there before is whole")


@posix
def test_a_kill_at_any_moment_of_saving_leaves_a_whole_model(
    original: OCuLaR, saved: Path, tmp_path: Path, save_elsewhere: Callable[[OCuLaR], None]
) -> None:
    new = fitted(purchases(), random_state=8)
    save_elsewhere(new)
    for n in range(1, 61):
        shutil.copytree(saved, tmp_path / f"target{n}" / "model")
    process = start_python(SAVE_AND_DIE, tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    moments = int(out)
    assert 5 < moments < 60
    old_bytes, new_bytes = learned_bytes(original), learned_bytes(new)
    found = []
    for n in range(1, moments + 1):
        folder = tmp_path / f"target{n}"
        loaded = learned_bytes(ocular.load(folder / "model"))
        assert loaded in (old_bytes, new_bytes)
        found.append("old" if loaded == old_bytes else "new")
        original.save(folder / "model")  # and the next one to save finds nothing in its way
        assert learned_bytes(ocular.load(folder / "model")) == old_bytes
    assert found == sorted(found, reverse=True)
    assert {"old", "new"} == set(found)


@posix
def test_a_kill_at_a_random_moment_leaves_a_whole_model(
    original: OCuLaR, saved: Path, tmp_path: Path, save_elsewhere: Callable[[OCuLaR], None]
) -> None:
    new = fitted(purchases(), random_state=8)
    save_elsewhere(new)
    rng = random.Random(os.getpid())
    targets = [tmp_path / f"target{n}" / "model" for n in range(3)]
    for target in targets:
        shutil.copytree(saved, target)
    processes = [start_python(SAVE_FOR_EVER, tmp_path, target) for target in targets]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.1))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    for target in targets:
        assert learned_bytes(ocular.load(target)) in (learned_bytes(original), learned_bytes(new))
