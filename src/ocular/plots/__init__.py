"""
Pictures of a model, its recommendations and its evaluation: every plot takes the model, or the result, first.

They are matplotlib figures without global state: a notebook shows them as they are, `save_figure` writes them.
"""

from ocular.plots.charts import plot_coclusters, plot_reliability, plot_search
from ocular.plots.drawing import Picture, check_picture_name, png, save_figure
from ocular.plots.evidence import plot_evidence
from ocular.plots.matrices import plot_matrix, plot_probabilities

__all__ = [
    "Picture",
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
