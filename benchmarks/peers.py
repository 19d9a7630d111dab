"""
Recommenders of other libraries, fitted anew from a matrix of ones. A library that is missing is named and left out:
cornac comes with the group `peers`, LensKit (which brings PyTorch) with `pip install lenskit`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from implicit.cpu.matrix_factorization_base import MatrixFactorizationBase

Fit = Callable[[sp.csr_matrix, int, int], Any]  # (matrix, K, threads) -> something with implicit's `recommend`


def implicit_als(matrix: sp.csr_matrix, K: int, threads: int) -> Any:
    model = AlternatingLeastSquares(factors=K, iterations=15, num_threads=threads, random_state=0)
    model.fit(matrix, show_progress=False)
    return model


def implicit_bpr(matrix: sp.csr_matrix, K: int, threads: int) -> Any:
    model = BayesianPersonalizedRanking(factors=K, num_threads=threads, random_state=0)
    model.fit(matrix, show_progress=False)
    return model


def cornac_bpr(matrix: sp.csr_matrix, K: int, threads: int) -> Any:
    """With implicit's learning rate: its own is too slow for its 100 epochs. A seed would make it use one thread."""
    from cornac.data import Dataset
    from cornac.models import BPR

    pairs, ones = matrix.tocoo(), np.ones(matrix.nnz, dtype=np.float32)
    names = [dict(enumerate(range(size))) for size in matrix.shape]
    data = Dataset(*matrix.shape, *names, (pairs.row, pairs.col, ones))  # its builder loops over the pairs in Python
    model = BPR(k=K, max_iter=100, learning_rate=0.01, num_threads=threads).fit(data)
    return _ranked(model.get_user_vectors(), model.get_item_vectors())


def lenskit_als(matrix: sp.csr_matrix, K: int, threads: int) -> Any:
    """A positive weighs 1 more than an unknown, as in implicit; its own default is 40, with a lower recall."""
    import pandas as pd
    from lenskit.als import ImplicitMFScorer
    from lenskit.data import DatasetBuilder
    from lenskit.parallel import config
    from lenskit.training import TrainingOptions

    if config._config is None:  # once per process: later calls are refused
        config.initialize(threads=threads, backend_threads=1)
    pairs, builder = matrix.tocoo(), DatasetBuilder()
    for kind, size in zip(("user", "item"), matrix.shape, strict=True):
        builder.add_entities(kind, np.arange(size))  # all of them: numbers stay numbers of rows and columns
    table = pd.DataFrame({"user_id": pairs.row, "item_id": pairs.col})
    builder.add_interactions("purchase", table, entities=["user", "item"], allow_repeats=False, default=True)
    model = ImplicitMFScorer(embedding_size=K, epochs=15, weight=1)
    model.train(builder.build(), TrainingOptions(rng=0))
    return _ranked(model.user_embeddings, model.item_embeddings)


def _ranked(users: Any, items: Any) -> MatrixFactorizationBase:
    """All factors are ranked by the same code."""
    model = AlternatingLeastSquares(factors=users.shape[1])
    model.user_factors, model.item_factors = (np.asarray(side, dtype=np.float32) for side in (users, items))
    return model


def installed() -> dict[str, Fit]:
    found = {}
    for fit in (implicit_als, implicit_bpr, cornac_bpr, lenskit_als):
        library = fit.__name__.partition("_")[0]
        if find_spec(library) is None:
            print(f"{library} is not installed: left out")
        else:
            found[fit.__name__] = fit
    return found
