"""Made-up purchases: with known co-clusters, like a vendor and its clients, or only as large as a real data set."""

from ocular.synthetic.market import B2B, b2b
from ocular.synthetic.planted import Planted, planted, skewed

__all__ = ["B2B", "Planted", "b2b", "planted", "skewed"]
