"""Embeddings of numerical features: what stands in for each number before the first layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Pieces of each feature, at most; a feature of fewer distinct values has fewer.
N_BINS = 24
# Waves of each feature, and the deviation of their frequencies (per half of the feature's range).
N_FREQUENCIES = 16
FREQUENCY_SCALE = 0.5


class FeatureEmbedding(nn.Module):
    """Maps ``(..., n_features)`` to ``(..., width)``, each feature by itself, without weights.

    What it maps to is fixed before training, so that members share it whatever else they share.
    """

    width: int


class PiecewiseLinearEncoding(FeatureEmbedding):
    r"""Each feature by how far it is through each of its bins [1]_.

    Bin t of a feature, from :math:`b_{t-1}` to :math:`b_t`, has the value
    :math:`(x - b_{t-1}) / (b_t - b_{t-1})`, cut off at 0 below it, but for the first one, and at 1
    above it, but for the last one. A linear layer behind it is any piecewise linear function of
    each feature, and the scale of a feature no longer matters.

    The bins hold equal numbers of the distinct values that are seen. Weights and repetitions of
    rows so mean nothing, and a value that most rows have takes no more than one bin; a feature of
    two values is one bin.

    Parameters
    ----------
    X : Tensor of shape (n, n_features)
        Training rows.
    n_bins : int, default=24
        Most bins of a feature, >= 1.

    References
    ----------
    .. [1] Y. Gorishniy, I. Rubachev, A. Babenko. "On Embeddings for Numerical Features in Tabular
       Deep Learning". NeurIPS 2022, arXiv 2203.05556.
    """

    feature: Tensor
    start: Tensor
    slope: Tensor
    least: Tensor
    most: Tensor

    def __init__(self, X: Tensor, n_bins: int = N_BINS) -> None:
        super().__init__()
        edges = [_edges(column, n_bins) for column in X.T.double()]
        inf = torch.full((1,), math.inf, dtype=torch.float64, device=X.device)
        start = torch.cat([e[:-1] for e in edges])
        width = torch.cat([e.diff() for e in edges])
        least = torch.cat([torch.cat([-inf, torch.zeros_like(e[2:])]) for e in edges])
        most = torch.cat([torch.cat([torch.ones_like(e[2:]), inf]) for e in edges])
        n_bins_of = torch.tensor([len(e) - 1 for e in edges], device=X.device)
        feature = torch.arange(len(edges), device=X.device).repeat_interleave(n_bins_of)
        slope = (1 / width).to(X.dtype)
        # A width that is infinite, or next to none: as a feature that is the same in all rows.
        slope[(slope == 0) | slope.isinf()] = 1
        self.register_buffer("feature", feature)
        self.register_buffer("slope", slope)
        for name, value in (("start", start), ("least", least), ("most", most)):
            self.register_buffer(name, value.to(X.dtype))
        self.width = len(feature)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., n_features)`` to ``(..., width)``, the bins of a feature side by side."""
        through = (x.index_select(-1, self.feature) - self.start) * self.slope
        return through.clamp(self.least, self.most)


class PeriodicEncoding(FeatureEmbedding):
    """Each feature, brought to [-1, 1], with sines and cosines of it at random frequencies [1]_.

    Parameters
    ----------
    X : Tensor of shape (n, n_features)
        Training rows.
    generator : torch.Generator
        Where frequencies are drawn from; on the CPU.
    n_frequencies : int, default=16
        Frequencies of each feature, >= 1.
    scale : float, default=0.5
        Deviation of the normal law of the frequencies, > 0.

    References
    ----------
    .. [1] Y. Gorishniy, I. Rubachev, A. Babenko. "On Embeddings for Numerical Features in Tabular
       Deep Learning". NeurIPS 2022, arXiv 2203.05556. There the frequencies are trained.
    """

    center: Tensor
    half_range: Tensor
    frequency: Tensor

    def __init__(
        self,
        X: Tensor,
        generator: torch.Generator,
        n_frequencies: int = N_FREQUENCIES,
        scale: float = FREQUENCY_SCALE,
    ) -> None:
        super().__init__()
        least, most = X.amin(0), X.amax(0)
        half_range = (most / 2 - least / 2).to(X)
        self.register_buffer("center", least + half_range)
        self.register_buffer("half_range", torch.where(half_range > 0, half_range, 1).to(X))
        frequency = torch.empty(X.shape[1], n_frequencies, dtype=X.dtype)
        frequency.normal_(0, 2 * math.pi * scale, generator=generator)
        self.register_buffer("frequency", frequency.to(X.device))
        self.width = X.shape[1] * (2 * n_frequencies + 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., n_features)`` to ``(..., width)``: the features, sines, cosines."""
        x = (x - self.center) / self.half_range
        angle = (x[..., None] * self.frequency).flatten(-2)
        return torch.cat([x, angle.sin(), angle.cos()], -1)


def _edges(column: Tensor, n_bins: int) -> Tensor:
    """Return the edges, one or more bins apart, of equal numbers of distinct values."""
    values = column.unique()
    n_bins = min(n_bins, max(len(values) - 1, 1))
    share = torch.linspace(0, 1, n_bins + 1, dtype=torch.float64, device=column.device)
    edges = torch.quantile(values, share).unique()
    # The same in all rows: 0, and a straight line off it.
    return edges if len(edges) > 1 else torch.cat([edges, edges + math.inf])
