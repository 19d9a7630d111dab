"""explain, coclusters and evaluate as a user runs them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import ocular
from ocular.explain.calibration import Calibration

COLUMNS = ("--client", "client", "--product", "product")
OPTIONS = ("--price", "price", "--currency", "€", "--client-attribute", "industry", "--coclusters", 6,
           "--links", 0)  # fmt: skip


def shown(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up market and a model of it with hit rates."""
    place = tmp_path_factory.mktemp("market")
    shown("synth", "--clients", 150, "--products", 30, "--seed", 4, "-o", place)
    done = run("fit", place / "purchases.parquet", *COLUMNS, *OPTIONS, "--regularization", 1, "-o", place / "model")
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"Back-test on a held-out 25%: [\d,]+ of [\d,]+ recommendations were bought "
        r"\(calibration error 0\.\d{3}; 0\.\d{3} after calibration\)",
        done.stdout,
    )
    return place


@pytest.fixture(scope="module")
def model(place: Path) -> ocular.OCuLaR:
    return ocular.load(place / "model")


@pytest.fixture(scope="module")
def client(model: ocular.OCuLaR) -> str:
    """The client with most purchases."""
    return str(model.interactions_.user_labels[int(model.interactions_.by_user.degrees.argmax())])


def others(model: ocular.OCuLaR, client: str, text: str) -> set[str]:
    """The other clients that a text names."""
    return {name for name in model.interactions_.user_labels if name != client and name in text}


# -------------------------------------------------------------------------------------------------------------- explain


def test_explain_says_what_the_library_says(place: Path, model: ocular.OCuLaR, client: str) -> None:
    found = ocular.Advisor(model).recommend(client, 2)
    base = ("explain", place / "model", "--client", client, "-n", 2)
    assert shown(*base) == "\n\n".join(each.text() for each in found) + "\n"
    assert shown(*base, "--format", "markdown") == "\n\n".join(e.explanation.to_markdown() for e in found) + "\n"
    assert json.loads(shown(*base, "--format", "json")) == [each.to_dict() for each in found]
    assert "In a back-test" in shown(*base)
    assert "paid a median of €" in shown(*base)


def test_explain_one_product(place: Path, model: ocular.OCuLaR, client: str) -> None:
    owned = str(model.interactions_.item_labels[model.interactions_.by_user[model.interactions_.user_index(client)][0]])
    base = ("explain", place / "model", "--client", client, "--product", owned)
    assert shown(*base).startswith(f"{client} has bought {owned} already")
    as_json = json.loads(shown(*base, "--format", "json"))
    assert (as_json["client"], as_json["product"], as_json["owned"]) == (client, owned, True)


def test_explain_supposes(place: Path, model: ocular.OCuLaR, client: str) -> None:
    advisor = ocular.Advisor(model)
    first = advisor.recommend(client, 1)[0].product
    base = ("explain", place / "model", "--client", client, "-n", 3, "--format", "json", "--also", first)
    assert json.loads(shown(*base)) == [each.to_dict() for each in advisor.recommend(client, 3, also=[first])]
    assert json.loads(shown(*base, "--product", first))["owned"] is True


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_explain_hides_clients(place: Path, model: ocular.OCuLaR, client: str, form: str) -> None:
    base = ("explain", place / "model", "--client", client, "-n", 1, "--format", form)
    assert others(model, client, shown(*base).replace("\\", "").replace("&amp;", "&").replace("&#x27;", "'"))
    hidden = shown(*base, "--hide-clients").replace("\\", "").replace("&amp;", "&").replace("&#x27;", "'")
    assert others(model, client, hidden) == set()


@pytest.mark.parametrize(
    ("form", "begins"), [("text", ""), ("markdown", ""), ("json", "["), ("html", "<!doctype html>")]
)
def test_explain_writes_a_file(place: Path, client: str, tmp_path: Path, form: str, begins: str) -> None:
    base = ("explain", place / "model", "--client", client, "-n", 1, "--format", form)
    assert shown(*base, "-o", tmp_path / "out") == f"written to {tmp_path / 'out'}\n"
    written = (tmp_path / "out").read_text(encoding="utf-8")
    assert written.startswith(begins)
    assert client.split(maxsplit=1)[0] in written
    assert form == "html" or written == shown(*base)


def test_explain_without_a_reason_says_so(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("client,product\na,x\na,y\nb,x\nb,y\nc,z\n")
    fit = ("fit", tmp_path / "sales.csv", *COLUMNS, "--coclusters", 2, "--regularization", 0.1, "-o", tmp_path / "m")
    done = run(*fit)
    assert "note: no hit rates (expected at least 100 recommendations" in done.stderr
    assert done.stderr.count("hit rates") == 1
    assert done.returncode == 0
    assert shown("explain", tmp_path / "m", "--client", "c") == "The model has no reason to recommend anything to c.\n"
    said = shown("explain", tmp_path / "m", "--client", "c", "--product", "x")
    assert "no reason, because nothing that c owns leads to it; this is the background probability" in said
    assert json.loads(shown("explain", tmp_path / "m", "--client", "c", "--format", "json")) == []
    assert "no reason to recommend anything" in shown("explain", tmp_path / "m", "--client", "c", "--format", "html")


def test_no_calibration(place: Path, tmp_path: Path, client: str) -> None:
    source = (place / "purchases.parquet", *COLUMNS, *OPTIONS, "--regularization", 1, "-o", tmp_path / "m")
    assert "recommendations were bought" not in shown("fit", *source, "--no-calibration")
    assert ocular.load(tmp_path / "m").calibration_ is None
    assert "held-out" not in shown("explain", tmp_path / "m", "--client", client)
    rows = json.loads(shown("recommend", tmp_path / "m", "--client", client, "--format", "json"))
    assert all(row["hit_rate"] is None for row in rows)


# ----------------------------------------------------------------------------------------------------------- recommend


def test_recommend_has_hit_rates_and_prices(place: Path, model: ocular.OCuLaR, client: str) -> None:
    found = ocular.Advisor(model).recommend(client, 3)
    rows = json.loads(shown("recommend", place / "model", "--client", client, "-n", 3, "--format", "json"))
    assert [row["product"] for row in rows] == [each.product for each in found]
    for row, each in zip(rows, found, strict=True):
        assert each.observed is not None
        assert row["hit_rate"] == pytest.approx(each.observed.rate, abs=5e-5)
        assert row["chance"] == pytest.approx(each.chance, abs=5e-5)
        assert row["value"] == pytest.approx(each.value, abs=0.005)
        assert each.price is not None
        assert (row["price"], row["price_low"], row["price_high"]) == (
            each.price.median,
            each.price.low,
            each.price.high,
        )
    assert shown("recommend", place / "model", "--client", client).split()[:5] == [
        "client", "rank", "product", "confidence", "chance",
    ]  # fmt: skip


def test_hit_rates_of_all_are_those_of_one(place: Path, tmp_path: Path) -> None:
    checked = ocular.load(place / "model")
    calibration = Calibration(np.array([0.02, 0.2]), np.array([0.1, 0.4]), np.array([90, 80]), np.array([9, 40]))
    checked.calibration_ = calibration
    checked.save(tmp_path / "model")
    shown("recommend", tmp_path / "model", "--all", "-n", 30, "-o", tmp_path / "all.parquet")
    table = pl.read_parquet(tmp_path / "all.parquet")
    assert {0.1, 0.5} <= set(table["hit_rate"])
    for confidence, rate in table.select("confidence", "hit_rate").iter_rows():
        known = calibration.observed(confidence)
        assert rate == (None if known is None else known.rate)


# ---------------------------------------------------------------------------------------------------------- coclusters


def test_coclusters_in_every_form(place: Path, model: ocular.OCuLaR) -> None:
    expected = sorted(model.coclusters(), key=lambda cocluster: -cocluster.share)
    rows = json.loads(shown("coclusters", place / "model", "--format", "json"))
    assert [row["number"] for row in rows] == [cocluster.index for cocluster in expected]
    for row, cocluster in zip(rows, expected, strict=True):
        assert row["label"] == cocluster.label
        assert (row["clients"], row["products"]) == (len(cocluster.users), len(cocluster.items))
        for name in ("density", "strength", "share"):
            assert row[name] == pytest.approx(getattr(cocluster, name), abs=5e-5)
    table = list(csv.DictReader(io.StringIO(shown("coclusters", place / "model", "--format", "csv"))))
    assert [row["label"] for row in table] == [cocluster.label for cocluster in expected]
    text = shown("coclusters", place / "model")
    assert text.split()[:4] == ["number", "label", "clients", "products"]
    members = model.members()
    assert (
        f"A client is in {members.per_user.mean():.1f} co-clusters on average, a product in "
        f"{members.per_item.mean():.1f}; {(members.per_user == 0).sum()} clients and "
        f"{(members.per_item == 0).sum()} products are in none."
    ) in text


def test_coclusters_at_a_probability(place: Path, model: ocular.OCuLaR) -> None:
    rows = json.loads(shown("coclusters", place / "model", "--probability", 0.5, "--format", "json"))
    expected = {cocluster.index: len(cocluster.users) for cocluster in model.coclusters(0.5)}
    assert {row["number"]: row["clients"] for row in rows} == expected
    assert expected != {cocluster.index: len(cocluster.users) for cocluster in model.coclusters()}


def test_one_cocluster_with_all_its_members(place: Path, model: ocular.OCuLaR, tmp_path: Path) -> None:
    chosen, interactions = model.coclusters()[1], model.interactions_
    base = ("coclusters", place / "model", "--number", chosen.index)
    rows = json.loads(shown(*base, "--format", "json"))
    for kind, labels in (
        ("product", interactions.item_labels[chosen.items].tolist()),
        ("client", interactions.user_labels[chosen.users].tolist()),
    ):
        assert [row["name"] for row in rows if row["kind"] == kind] == labels
    assert rows[0]["strength"] == pytest.approx(float(chosen.item_strengths[0]), abs=5e-5)
    shown(*base, "--format", "csv", "-o", tmp_path / "one.csv")
    assert len(pl.read_csv(tmp_path / "one.csv")) == len(rows)


def test_report_of_the_model(place: Path, model: ocular.OCuLaR, tmp_path: Path) -> None:
    assert "written to" in shown("coclusters", place / "model", "--format", "html", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("data:image/png;base64,") == 6  # three pictures, light and dark
    assert "How reliable the model score is" in page
    assert all(f'<td class="n">{cocluster.index}</td>' in page for cocluster in model.coclusters())


def test_html_of_one_cocluster_is_no_plain_table(place: Path, model: ocular.OCuLaR) -> None:
    number = model.coclusters()[0].index
    done = run("coclusters", place / "model", "--number", number, "--format", "html")
    assert done.returncode == 2 or "<" in done.stdout


# ------------------------------------------------------------------------------------------------------------ evaluate


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("explain", "MODEL", "--client", "Nobody at all 77"), "no client named 'Nobody at all 77' among 150"),
        (("explain", "MODEL", "--client", "CLIENT", "--product", "zzz"), "no product named 'zzz' among 30"),
        (("explain", "MODEL", "--client", "CLIENT", "--also", "zzz"), "no product named 'zzz' among 30"),
        (("explain", "NOWHERE", "--client", "x"), "manifest.json"),
        (("coclusters", "NOWHERE"), "manifest.json"),
        (("coclusters", "MODEL", "--number", 6), "no co-cluster 6"),
        (("coclusters", "MODEL", "--number", -1), "no co-cluster -1"),
        (
            ("evaluate", "SOURCE", *COLUMNS, "--models", "ocular,als"),
            "expected --models to be one of ocular, r-ocular, evidence, user-knn",
        ),
        (("evaluate", "NOWHERE.csv", *COLUMNS), "NOWHERE.csv"),
        (("evaluate", "SOURCE", "--client", "clnt", "--product", "product"), "no column named 'clnt'"),
        (("evaluate", "SOURCE", *COLUMNS, "--test-share", 2), "2"),
        (("evaluate", "SOURCE", *COLUMNS, "--coclusters", 0), "expected --coclusters to be a whole number"),
        (("evaluate", "SOURCE", *COLUMNS, "--coclusters", 3, "--reliability", "r.txt"), ".png"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value)),
)
def test_bad_input_is_one_line(place: Path, client: str, arguments: tuple[object, ...], says: str) -> None:
    meant = {
        "MODEL": place / "model", "SOURCE": place / "purchases.parquet", "CLIENT": client, "NOWHERE": place / "no",
        "NOWHERE.csv": place / "NOWHERE.csv", "r.txt": place / "r.txt",
    }  # fmt: skip
    done = run(*(meant.get(str(argument), argument) for argument in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")  # and no fit before it
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_nearest_names_are_offered(place: Path, client: str) -> None:
    assert f"did you mean {client!r}" in run("explain", place / "model", "--client", client.lower()).stderr


def test_csv_holds_no_formulas(tmp_path: Path) -> None:
    pairs = "".join(f"{u},{i}\n" for u in ("=1+1", "b", "c") for i in ("@x", "y", "+z") if (u, i) != ("=1+1", "+z"))
    (tmp_path / "sales.csv").write_text("client,product\n" + pairs)
    options = (*COLUMNS, "--coclusters", 1, "--regularization", 0.1, "-o", tmp_path / "model")
    assert run("fit", tmp_path / "sales.csv", *options).returncode == 0
    lines = shown("recommend", tmp_path / "model", "--client", "=1+1", "-n", 1, "--format", "csv").splitlines()
    assert lines[1].startswith("'=1+1,1,'+z,")
    shown("recommend", tmp_path / "model", "--all", "-n", 1, "-o", tmp_path / "all.csv")
    assert "'=1+1,1,'+z," in (tmp_path / "all.csv").read_text()
    as_json = json.loads(shown("recommend", tmp_path / "model", "--client", "=1+1", "-n", 1, "--format", "json"))
    assert as_json[0]["client"] == "=1+1"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--currency", "£"), "with a price, got no price column"),
        (("--price", "price", "--currency", "E\nUR"), "got 'E\\nUR'"),
        (("--price", "price", "--currency", "a" * 9), "at most 8 characters"),
    ],
)
def test_currency_is_a_sign(place: Path, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    done = run("fit", place / "purchases.parquet", *COLUMNS, *options, "-o", tmp_path / "model")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
