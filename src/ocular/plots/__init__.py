"""Pictures of a model, its recommendations and its evaluation, as matplotlib figures that no global state touches."""

from ocular.plots.matrices import (
    check_picture_name,
    plot_coclusters,
    plot_evidence,
    plot_matrix,
    plot_probabilities,
    plot_reliability,
    plot_search,
    png,
    save_figure,
)

__all__ = [
    "check_picture_name",
    "plot_coclusters",
    "plot_evidence",
    "plot_matrix",
    "plot_probabilities",
    "plot_reliability",
    "plot_search",
    "png",
    "save_figure",
]
