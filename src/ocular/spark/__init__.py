"""Fit, search and recommend on Spark, with the same kernels and the same results as on one machine."""

from ocular.spark.requirements import require_pyspark

require_pyspark()

from ocular.spark.fit import fit  # noqa: E402
from ocular.spark.recommend import recommend  # noqa: E402
from ocular.spark.search import search  # noqa: E402
from ocular.spark.session import connect  # noqa: E402

__all__ = ["connect", "fit", "recommend", "search"]
