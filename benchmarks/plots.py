"""
Pictures of the results that the other scripts saved.

python benchmarks/plots.py
"""

from __future__ import annotations

from common import RESULTS, parser, saved_result
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, OTHERS = "#2f6fb3", "0.6"


def draw_netflix(axes: Axes) -> None:
    times = {float(fraction): seconds for fraction, seconds in saved_result("netflix")["sweeps"].items()}
    axes.plot(list(times), list(times.values()), marker="o", color=OURS)
    axes.plot([0, 1], [0, times[1.0]], color=OTHERS, zorder=0, label="in proportion")
    axes.set(title="Netflix' shape, K=200", xlabel="fraction of the positives", ylabel="seconds per sweep")
    axes.set(xlim=(0, 1.05), ylim=0)
    axes.legend(frameon=False)


def draw_coclusters(axes: Axes) -> None:
    fits = {int(K): fit["ratio"] for K, fit in saved_result("sparse")["fits"].items()}
    first = min(fits)
    axes.plot(list(fits), list(fits.values()), marker="o", color=OURS)
    axes.plot(list(fits), [K / first for K in fits], color=OTHERS, zorder=0, label="in proportion")
    axes.set(title="CiteULike-a, λ=150", xlabel="co-clusters", ylabel=f"time of a fit, K={first}: 1")
    axes.set(xscale="log", yscale="log")
    axes.legend(frameon=False)


def draw_peers(axes: Axes) -> None:
    fits = {name: fit for name, fit in saved_result("fit").items() if isinstance(fit, dict) and "recall@50" in fit}
    for name, fit in fits.items():
        axes.plot(fit["seconds"], fit["recall@50"], "o", color=OURS if name == "ocular" else OTHERS)
        axes.annotate(name.replace("_", " "), (fit["seconds"], fit["recall@50"]), xytext=(0, 6), ha="center",
                      textcoords="offset points")  # fmt: skip
    axes.set(title="MovieLens-1M, K=100", xlabel="seconds of a fit", ylabel="recall@50", xscale="log")
    axes.margins(0.25)


def draw_rankings(axes: Axes) -> None:
    rankings = saved_result("recommend") | {"Netflix' shape": saved_result("netflix")["recommend"]}
    names = list(rankings)[::-1]
    axes.barh(names, [rankings[name]["ratio"] for name in names], color=OURS)
    axes.axvline(1, color=OTHERS)
    axes.set(title="top-50 for everybody", xlabel="users per second, implicit: 1")


def main() -> None:
    parser(__doc__).parse_args()
    figure = Figure(figsize=(9, 7), layout="constrained")
    for axes, draw in zip(
        figure.subplots(2, 2).flat, (draw_netflix, draw_coclusters, draw_peers, draw_rankings), strict=True
    ):
        draw(axes)
    figure.savefig(RESULTS / "speed.svg", metadata={"Date": None})
    print("drawn in benchmarks/results/speed.svg")


if __name__ == "__main__":
    main()
