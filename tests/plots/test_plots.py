"""What a reader sees in the pictures."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ocular import OCuLaR, plots
from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError
from ocular.explain.calibration import Calibration, Reliability
from ocular.explain.reasons import Explanation, Reason
from ocular.plots import drawing

NASTY = [
    "line\nbreak\tAG", "$x^2$ and $", r"$\nope{$", "<b>Acme</b> & 'Söhne'", "\u202eevil", "שלום", "مرحبا",
    "🚀 Rocket 👩\u200d👧", "A" * 200, "東京", "", "_\x00\x07%{}",
]  # fmt: skip


def three_blocks() -> Any:
    """12 × 12 with three overlapping co-clusters and a hole in each."""
    R = np.zeros((12, 12), dtype=int)
    R[0:5, 0:4] = R[3:9, 2:8] = R[7:12, 6:11] = 1
    R[1, 2] = R[5, 4] = R[10, 7] = 0
    return R


def fitted(**labels: Any) -> OCuLaR:
    return OCuLaR(3, 0.5, random_state=0, n_threads=1).fit(Interactions.from_matrix(three_blocks(), **labels))


@pytest.fixture(scope="module")
def model() -> OCuLaR:
    return fitted()


@pytest.fixture(scope="module")
def nasty() -> OCuLaR:
    return fitted(user_labels=NASTY, item_labels=NASTY[::-1])


def large(n_users: int = 80_000, n_items: int = 3_000, n_coclusters: int = 100) -> Any:
    """What a picture needs of a model that would not fit on it."""
    groups = []
    for c in range(n_coclusters):
        users, items = np.arange(40) + 40 * c, np.arange(20) + 20 * c
        strengths = {"user_strengths": np.linspace(2, 1, 40), "item_strengths": np.linspace(2, 1, 20)}
        share = (c + 1) / 10_000
        groups.append(
            SimpleNamespace(
                index=c, label=f"Family {c}", users=users, items=items, density=0.5, share=share, **strengths
            )
        )
    pairs = np.array([(u, i) for g in groups for u in g.users for i in g.items[:10]])
    return SimpleNamespace(
        interactions_=Interactions.from_pairs(pairs[:, 0], pairs[:, 1], (n_users, n_items)),
        coclusters=lambda: groups,
        predict_proba=lambda users, items: np.broadcast_to(0.5, np.broadcast_shapes(users.shape, items.shape)),
        recommend=lambda users, N: (np.full((len(users), N), -1), np.full((len(users), N), np.nan)),
    )


def squares(figure: Any, name: str) -> set[tuple[str, str]]:
    """(row name, column name) of every square of a kind."""
    axes = figure.axes[0]
    rows, columns = (
        [label.get_text() for label in labels] for labels in (axes.get_yticklabels(), axes.get_xticklabels())
    )
    found = [c for c in axes.collections if c.get_gid() == name]
    assert len(found) == 1
    middles = [path.get_extents().get_points().mean(axis=0) for path in found[0].get_paths()]
    return {(rows[round(y)], columns[round(x)]) for x, y in middles}


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")) if text.get_text()]


def pixels(figure: Any) -> Any:
    from matplotlib.image import imread

    return imread(BytesIO(plots.png(figure, dpi=60)))


def test_matrix_fills_what_was_bought_and_outlines_what_is_recommended(model: OCuLaR) -> None:
    figure = plots.plot_matrix(model)
    assert squares(figure, "bought") == {(str(u), str(i)) for u, i in np.argwhere(three_blocks())}
    assert {("1", "2"), ("5", "4"), ("10", "7")} <= squares(figure, "recommended")
    assert not squares(figure, "recommended") & squares(figure, "bought")


def test_matrix_frames_each_cocluster_once_where_blocks_form_a_chain(model: OCuLaR) -> None:
    axes = plots.plot_matrix(model).axes[0]
    frames = [(patch.get_gid(), patch.get_linestyle()) for patch in axes.patches if patch.get_gid()]
    assert sorted(name for name, _ in frames) == ["co-cluster 0", "co-cluster 1", "co-cluster 2"]
    assert len({line for _, line in frames}) == 3  # colour is not the only cue
    for group in model.coclusters():
        (frame,) = [patch for patch in axes.patches if patch.get_gid() == f"co-cluster {group.index}"]
        assert round(frame.get_width()) == len(group.items)
        assert round(frame.get_height()) == len(group.users)


def test_matrix_shows_the_given_recommendations(model: OCuLaR) -> None:
    figure = plots.plot_matrix(model, recommended=[(0, 11), (2, 9)])
    assert squares(figure, "recommended") == {("0", "11"), ("2", "9")}


def test_matrix_of_a_large_model_says_what_it_shows() -> None:
    figure = plots.plot_matrix(large())
    sentence = (
        "60 of 80,000 clients and 60 of 3,000 products: the strongest members of the 8 clearest co-clusters (of 100)"
    )
    assert sentence in " ".join(figure.axes[0].get_xlabel().split())
    assert len(figure.axes[0].get_yticks()) == len(figure.axes[0].get_xticks()) == 60
    assert plots.plot_matrix(large(n_users=5000), max_rows=20).axes[0].get_xlabel().startswith("20 of 5,000 clients")
    one = " ".join(plots.plot_matrix(large(n_users=5000), max_rows=5).axes[0].get_xlabel().split())
    assert one.endswith("members of the clearest co-cluster (of 100)")


def test_a_small_model_needs_no_such_sentence(model: OCuLaR) -> None:
    assert plots.plot_matrix(model).axes[0].get_xlabel() == ""
    assert plots.plot_probabilities(model).axes[0].get_xlabel() == ""


def test_probabilities_are_written_in_their_squares(model: OCuLaR) -> None:
    figure = plots.plot_probabilities(model, users=[1, 5], items=[2, 4, 11])
    written = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in figure.axes[0].texts}
    table = model.predict_proba(np.array([[1], [5]]), [2, 4, 11])
    assert written == {at: f"{p:.2f}" for at, p in np.ndenumerate(table)}
    assert squares(figure, "bought") == {("5", "2")}
    assert ("1", "2") in squares(figure, "unknown")


def test_probabilities_of_a_large_model_are_a_sample() -> None:
    figure = plots.plot_probabilities(large())
    assert figure.axes[0].get_xlabel().startswith("20 of 80,000 clients and 20 of 3,000 products: the strongest")
    assert len(figure.axes[0].texts) == 400


def test_evidence_for_a_recommendation(model: OCuLaR) -> None:
    explanation = model.explain(1, 2)
    figure = plots.plot_evidence(model, 1, 2)
    assert squares(figure, "recommended") == {("1", "2")}
    first = squares(figure, "reason 1")
    assert {("1", str(i)) for i in (0, 1, 3)} <= first  # what the client has
    assert ("0", "2") in first  # a similar client has the product
    R = three_blocks()
    assert all(R[int(u), int(i)] for u, i in first)
    share = explanation.reasons[0].contribution / sum(r.contribution for r in explanation.reasons)
    assert f"reason 1 · {share:.0%}" in texts(figure)


def test_evidence_groups_columns_and_rows_by_reason(model: OCuLaR) -> None:
    history = model.interactions_
    reasons = [
        Reason(cocluster=0, contribution=3.0, owned_items=[2, 3], similar_users=[3, 4]),
        Reason(cocluster=1, contribution=1.0, owned_items=[0, 3], similar_users=[4, 5]),
    ]
    figure = plots.plot_evidence(
        Explanation(
            user=2, item=7, confidence=0.5, owned=False, reasons=reasons, interactions=history,
            client_items=history.by_user[2],
        )
    )  # fmt: skip
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "3", "0", "7"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "4", "5", "2"]
    both = {(user, item) for user in "3452" for item in "23"}
    assert squares(figure, "reason 1") == both | {("3", "7"), ("4", "7")}
    assert squares(figure, "reason 2") == {("3", "0"), ("4", "0"), ("2", "0"), ("5", "7")}  # client 5 has no item 0
    assert {"reason 1\n75%", "2\n25%"} <= set(texts(figure))


def explained(model: OCuLaR, reason: Reason) -> Explanation:
    """Product 7 for client 2, for one reason."""
    history = model.interactions_
    return Explanation(
        user=2, item=7, confidence=0.5, owned=False, reasons=[reason], interactions=history,
        client_items=history.by_user[2],
    )  # fmt: skip


def test_evidence_shows_those_who_did_not_buy_too(model: OCuLaR) -> None:
    # two rows of buyers for each of others, buyers first; the last column is empty for the others
    reason = Reason(0, 1.0, owned_items=[2, 3], similar_users=[4, 5, 6, 7], other_users=[0, 1, 3])
    explanation = explained(model, reason)
    figure = plots.plot_evidence(explanation, max_clients=5)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["4", "5", "6", "7", "0", "2"]
    assert {user for user, item in squares(figure, "reason 1") if item == "7"} == {"4", "5", "6", "7"}
    assert "reason 1: 4 of 7 bought it" in texts(figure)


def test_evidence_says_how_much_it_leaves_out(model: OCuLaR) -> None:
    history = model.interactions_
    reasons = [Reason(c, 4.0 - c, [c], [3]) for c in range(4)]  # 4 + 3 + 2 of 10 are shown
    figure = plots.plot_evidence(
        Explanation(
            user=None, item=7, confidence=0.5, owned=False, reasons=reasons, interactions=history,
            client_items=np.array([0, 1, 2, 3]),
        )
    )  # fmt: skip
    assert "10% of the score is not shown" in figure.axes[0].get_xlabel()
    assert figure.axes[0].get_yticklabels()[-1].get_text() == "the client"
    assert squares(figure, "reason 3") >= {("the client", "2")}


def test_evidence_of_links_are_the_products_it_names(model: OCuLaR) -> None:
    """Columns are the two named of three linked products, rows the owners of the first: who bought it, who did not."""
    reason = Reason(
        -1, 1.0, [2, 3, 0], [4, 7], [0], kind="links", parts=[0.5, 0.45, 0.05], counts=[(2, 3), (2, 3)], base_rate=0.5
    )
    explanation = explained(model, reason)
    figure = plots.plot_evidence(explanation)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["2", "3", "7"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["4", "7", "0", "2"]
    R = three_blocks()
    shown = squares(figure, "reason 1")
    assert shown == {(u, i) for u in ("4", "7", "0", "2") for i in ("2", "3", "7") if R[int(u), int(i)]}
    assert {"reason 1: 2 of 3 bought it", "reason 1: products bought together"} <= set(texts(figure))
    assert "reason 1\n95%" in texts(figure)  # what the named products carry
    assert "5% of the score is not shown" in figure.axes[0].get_xlabel()


def test_evidence_of_peers_are_the_most_similar_clients(model: OCuLaR) -> None:
    """Rows are the most similar clients: client 8 bought it and is similar too, but is not one of the closest three."""
    reason = Reason(
        -1, 1.0, [3, 2], [4, 5, 8], [0], kind="peers", parts=[0.5, 0.4, 0.1], in_common=[2, 2, 1], n_peers=3
    )
    explanation = explained(model, reason)
    figure = plots.plot_evidence(explanation)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["3", "2", "7"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["4", "5", "0", "2"]
    assert {user for user, item in squares(figure, "reason 1") if item == "7"} == {"4", "5"}
    assert {"reason 1: 2 of 3 bought it", "reason 1: similar clients"} <= set(texts(figure))
    hidden = plots.plot_evidence(explanation, show_clients=False)
    assert [label.get_text() for label in hidden.axes[0].get_yticklabels()][:3] == ["client A", "client B", "client C"]


def test_evidence_hides_other_clients(nasty: OCuLaR) -> None:
    shown = [t.get_text() for t in plots.plot_evidence(nasty, 1, 2, show_clients=False).axes[0].get_yticklabels()]
    assert shown[:2] == ["client A", "client B"]
    assert shown[-1] == "$x^2$ and $"


def test_evidence_without_reasons_is_a_sentence(model: OCuLaR) -> None:
    figure = plots.plot_evidence(model, 0, 11)
    assert any("no co-cluster to name as the reason" in text for text in texts(figure))


def test_coclusters_are_named_without_collisions() -> None:
    for count in (1, 3, 100, 4000):
        figure = plots.plot_coclusters(large(n_items=20 * count, n_users=40 * count, n_coclusters=count))
        figure.draw_without_rendering()
        boxes = [t.get_window_extent() for t in figure.axes[0].texts if t.get_text()]
        assert boxes
        assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
        assert f"{count:,} co-clusters" in figure.axes[0].get_title("left")


def bins(*series: list[float]) -> Reliability:
    return Reliability(*map(np.array, series))


def test_reliability_of_a_calibrated_model(model: OCuLaR) -> None:
    with pytest.raises(DataError, match=r"expected a calibrated model; call model.calibrate\(\) first"):
        plots.plot_reliability(model)
    steps = Calibration(np.array([0.1, 0.4]), np.array([0.2, 0.7]), np.array([90, 60]), np.array([9, 30]))
    calibrated = SimpleNamespace(calibration_=steps)
    for source in (calibrated, steps):
        # |0.2 − 9/90| for 90 of 150 and |0.7 − 30/60| for 60: 0.14
        assert "confidence · expected calibration error 0.140" in texts(plots.plot_reliability(source))


def test_reliability_states_the_calibration_error() -> None:
    # |0.3 − 0.2| for a quarter and |0.5 − 0.9| for the rest: 0.025 + 0.3; the empty bin does not count
    figure = plots.plot_reliability(bins([0.2, 0.9, 0.5], [0.3, 0.5, np.nan], [10, 30, 0]))
    assert "confidence · expected calibration error 0.325" in texts(figure)
    both = plots.plot_reliability(bins([0.2], [0.2], [5]), before=bins([0.2], [0.7], [5]))
    assert "before · expected calibration error 0.500" in texts(both)
    assert "calibrated · expected calibration error 0.000" in texts(both)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_any_name_can_be_drawn(nasty: OCuLaR, theme: str) -> None:
    figures = [
        plots.plot_matrix(nasty, theme=theme),
        plots.plot_probabilities(nasty, theme=theme),
        plots.plot_evidence(nasty, 1, 2, theme=theme),
        plots.plot_coclusters(nasty, theme=theme),
    ]
    for figure in figures:
        assert plots.png(figure, dpi=50).startswith(b"\x89PNG")
    assert "$x^2$ and $" in texts(figures[0])
    assert "line break AG" in texts(figures[0])


def test_names_are_cleaned() -> None:
    assert drawing.short_name("a\n b\t\u202ec\x00") == "a b c"
    assert drawing.short_name("🚀 Rocket") == "▯ Rocket"
    assert drawing.short_name(" \n") == "(no name)"
    assert drawing.short_name(6) == "6"
    long = drawing.short_name("start" + "x" * 200 + "end", 20)
    assert len(long) == 20
    assert long.startswith("start")
    assert long.endswith("end")
    assert "…" in long


def test_themes_differ(model: OCuLaR) -> None:
    light, dark = (pixels(plots.plot_matrix(model, theme=theme)) for theme in ("light", "dark"))
    assert light[0, 0, :3].min() > 0.9
    assert dark[0, 0, :3].max() < 0.2
    with pytest.raises(ConfigError, match="expected theme to be one of light, dark, got 'blue'"):
        plots.plot_matrix(model, theme="blue")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_outlines_stand_out(theme: str) -> None:
    from matplotlib.colors import to_rgb

    def luminance(color: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    def contrast(a: str, b: str) -> float:
        low, high = sorted([luminance(a), luminance(b)])
        return (high + 0.05) / (low + 0.05)

    colors = drawing.THEMES[theme]
    assert min(contrast(color, colors.cell) for color in (colors.ink, colors.muted)) >= 4.5
    assert min(contrast(color, colors.paper) for color in (*colors.palette, colors.bought, colors.accent)) >= 3


def test_bad_counts_are_refused(model: OCuLaR) -> None:
    with pytest.raises(ConfigError, match="expected max_rows to be a whole number from 1 to 200, got 0"):
        plots.plot_matrix(model, max_rows=0)
    with pytest.raises(ConfigError, match="expected the number of users to be a whole number from 1 to 200, got 0"):
        plots.plot_probabilities(model, users=[])
    with pytest.raises(DataError, match="expected user ids from 0 to 11, got 12"):
        plots.plot_probabilities(model, users=[12])
    with pytest.raises(DataError, match="of the same bins"):
        plots.plot_reliability(bins([0.1, 0.2], [0.1], [3]))
    with pytest.raises(ConfigError, match="expected a model with user= and item=, or an explanation"):
        plots.plot_evidence(model, 1)


def test_a_model_without_coclusters_is_a_sentence() -> None:
    empty = large(n_coclusters=1)
    empty.coclusters = list
    for figure in (plots.plot_matrix(empty), plots.plot_probabilities(empty), plots.plot_coclusters(empty)):
        assert texts(figure) == ["The model has no co-clusters to show."]


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_figures_are_saved_by_suffix(tmp_path: Any, model: OCuLaR, suffix: str, start: bytes) -> None:
    plots.save_figure(tmp_path / f"matrix{suffix}", plots.plot_matrix(model))
    assert (tmp_path / f"matrix{suffix}").read_bytes().startswith(start)
    with pytest.raises(ConfigError, match=r"ends in .png, .svg or .pdf, got 'matrix.bmp'"):
        plots.save_figure(tmp_path / "matrix.bmp", plots.plot_matrix(model))


def test_nothing_of_the_size_of_the_data_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(matrix: Any, *args: Any, **kwargs: Any) -> Any:
        assert matrix.shape[0] * matrix.shape[1] <= 60 * 60
        return dense(matrix, *args, **kwargs)

    dense = sp.csr_array.toarray
    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    plots.plot_matrix(large())


def test_without_matplotlib_the_extra_is_named() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import ocular.plots"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ocular.errors.MissingExtraError: pictures need matplotlib: pip install 'ocular-rec[plots]'"


def test_a_notebook_shows_figures_without_magic(model: OCuLaR) -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    figures = [
        plots.plot_matrix(model),
        plots.plot_probabilities(model),
        plots.plot_evidence(model, 1, 2),
        plots.plot_coclusters(model),
        plots.plot_reliability(bins([0.2], [0.3], [10])),
    ]
    for figure in figures:
        data, metadata = formatters.DisplayFormatter().format(figure)
        assert data["image/png"].startswith(b"\x89PNG")
        width = int.from_bytes(data["image/png"][16:20])
        assert metadata["image/png"] == {"width": width * 96 // 144}
