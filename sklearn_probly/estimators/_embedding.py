"""Which embedding of numerical features the default network has."""

from __future__ import annotations

import torch

from ..modules.embeddings import FeatureEmbedding, PeriodicEncoding, PiecewiseLinearEncoding
from ._context import FitContext

# `num_embedding="auto"` embeds up to this many features: those of tables, not the pixels of images.
AUTO_EMBEDDING_FEATURES = 128
# Where values lie is told from this many rows; more say nothing new.
EMBEDDING_ROWS = 100_000


def feature_embedding(kind: str | None, fit: FitContext) -> FeatureEmbedding | None:
    """Return the embedding that `kind` means for the training rows, None if it is none.

    Where training goes on, it is that of the former network.
    """
    n_rows, n_features = len(fit.train), fit.train.X.shape[1]
    if kind is None or (kind == "auto" and n_features > AUTO_EMBEDDING_FEATURES):
        return None
    if fit.former is not None:
        return next(m for m in fit.former.modules() if isinstance(m, FeatureEmbedding))
    X, _ = fit.train[torch.arange(0, n_rows, -(-n_rows // EMBEDDING_ROWS), device=fit.device)]
    if kind == "periodic":
        return PeriodicEncoding(X, fit.streams.torch("embedding"))
    return PiecewiseLinearEncoding(X)
