"""How well it works: the calibration curve, accuracy beside other methods, and what is said where they are missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sites import Site, rows_of, text_of

from ocular import Interactions, OCuLaR, load
from ocular.evaluation.quality import QUALITY_FILE, MethodAccuracy, QualityRecord, read_quality, save_quality
from ocular.web.routes.model import curve_of

OpenSite = Callable[..., Site]
RECORD = QualityRecord(
    methods=[
        MethodAccuracy("ocular", 0.61, 0.3, 0.4, {"n_coclusters": 6, "regularization": 0.3}),
        MethodAccuracy("popularity", 0.22, 0.1, 0.2, {}),
    ],
    metric="recall", at=10, tuned_on="none", clients=57, held_out=0.25, date=None, measured="2026-11-18",
)  # fmt: skip


def test_the_page_says_what_a_seller_needs(site: Site) -> None:
    page = text_of(site.browser("ana").get("/model"))
    calibration = site.services.served.advisor.model.calibration_
    assert calibration is not None
    first, last = f"{100 * calibration.rates[-1]:.0f}%", calibration.rates[0]
    assert f"top-scored recommendations were bought <b>{first}</b> of the time" in page
    assert last < calibration.rates[-1]
    assert "suggests what similar clients own and this one doesn't" in page
    assert "Last updated" in page
    assert page.index("<h2>How it works") < page.index("<h2>Can you trust") < page.index("<summary>Technical details")
    assert '<details class="technical"><summary>' in page  # folded
    for old in ("It last learned", "Sweeps", "Pairs bought", "confidence", "good for"):
        assert old not in page


def test_the_curve_is_of_clients_whose_purchases_made_no_chance(site: Site) -> None:
    calibration = site.services.served.advisor.model.calibration_
    assert calibration is not None
    checked = calibration.checked
    assert checked is not None
    assert checked.counts.sum() == calibration.counts.sum()
    assert calibration.error_after == pytest.approx(checked.error)
    page = site.browser("ana").get("/model").text
    assert "Chance to buy and what was bought" in page
    table = [row for row in rows_of(page) if len(row) == 3][1:]
    assert [int(row[2].replace(",", "")) for row in table] == checked.counts.tolist()
    assert page.count('<circle class="fill"') == len(checked.counts)


def test_the_curve_comes_back_from_a_file(first_model: Path) -> None:
    calibration = load(first_model / "first").calibration_
    assert calibration is not None
    assert calibration.checked is not None
    again = type(calibration).from_dict(json.loads(json.dumps(calibration.to_dict())))
    np.testing.assert_array_equal(again.checked, calibration.checked)
    for damage in ([[0.1], [0.1, 0.2], [3]], [[1.5], [0.1], [3]], [[0.1], ["many"], [3]], 7):
        with pytest.raises((ValueError, TypeError)):
            type(calibration).from_dict(calibration.to_dict() | {"checked": damage})


def test_a_model_of_an_older_version_shows_its_score(site: Site) -> None:
    calibration = site.services.served.advisor.model.calibration_
    assert calibration is not None
    old = curve_of(replace(calibration, checked=None))
    assert old is not None
    assert old["points"] == list(
        zip(calibration.means.tolist(), calibration.rates.tolist(), calibration.counts.tolist(), strict=True)
    )
    assert not old["by_chance"]


def test_what_was_not_measured_names_the_command(open_site: OpenSite, companies: Interactions, tmp_path: Path) -> None:
    OCuLaR(3, 0.3, tol=1e-2, random_state=0).fit(companies).save(tmp_path / "models" / "first")
    page = text_of(open_site(models=tmp_path / "models").browser("ana").get("/model"))
    assert page.count("Not measured yet") == 3
    assert "--models ocular,popularity,user-knn --save MODELS" in page
    assert "--backtest 2024-07-01" in page
    assert "No tuning results" in page


@pytest.fixture
def measured(open_site: OpenSite, first_model: Path, tmp_path: Path) -> Site:
    shutil.copytree(first_model, tmp_path / "models")
    return open_site(models=tmp_path / "models")


def test_accuracy_is_shown_beside_other_methods(measured: Site) -> None:
    folder, fingerprint = measured.settings.models, measured.services.served.fingerprint
    save_quality(folder, fingerprint, RECORD)
    save_quality(folder, fingerprint, replace(RECORD, date="2024-07-01", held_out=None))
    page = text_of(measured.browser("ana").get("/model"))
    bars = [row for row in rows_of(page) if row[0] in ("Patterns alone (this model)", "Bestsellers")]
    assert bars == [["Patterns alone (this model)", "61%"], ["Bestsellers", "22%"]] * 2
    assert "Trained on purchases before 1 Jul 2024" in page
    assert "57 clients, measured on 18 Nov 2026" in page
    assert "other purchases" not in page
    assert "other settings" not in page


def test_a_record_that_is_not_of_this_model_says_so(measured: Site) -> None:
    others = [MethodAccuracy("ease", 0.7, 0.3, 0.4, {})]
    save_quality(measured.settings.models, "another", replace(RECORD, tuned_on="test", methods=others))
    page = text_of(measured.browser("ana").get("/model"))
    assert "Measured on different purchases from those this model was trained on" in page
    assert "tuned on the test data, which flatters all methods" in page
    assert "This model's own method was not measured" in page
    parameters = {"n_coclusters": 50, "regularization": 10.0}
    save_quality(
        measured.settings.models, "", replace(RECORD, methods=[replace(RECORD.methods[0], parameters=parameters)])
    )
    assert "settings that differ from this model's: 50 patterns" in text_of(measured.browser("ana").get("/model"))


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"format": "other"}', '{"format": "ocular-quality", "random": {"methods": 7}}',
     '{"format": "ocular-quality", "random": {"methods": [{"model": "x", "recall": "many"}]}}'],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_not_shown(measured: Site, content: str) -> None:
    (measured.settings.models / QUALITY_FILE).write_text(content)
    assert read_quality(measured.settings.models) == {}
    page = measured.browser("ana").get("/model")
    assert page.status_code == 200
    assert page.text.count("Not measured yet") == 2


def test_a_record_keeps_the_other_kind(tmp_path: Path) -> None:
    save_quality(tmp_path, "one", RECORD)
    by_date = replace(RECORD, date="2024-07-01", held_out=None)
    save_quality(tmp_path, "two", by_date)
    assert read_quality(tmp_path) == {"random": replace(RECORD, data="one"), "by_date": replace(by_date, data="two")}
