"""DEUP: what the predicted error of a row is computed from, and the errors to learn from."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .density import Encoded, LogFlowDensity, LogGMMDensity

# Added to a variance; below it there is rounding only.
VARIANCE_EPS = 1e-12
# log10 of the least error that is told from none, as in the authors' script.
MIN_LOG10_ERROR = -5.0
# Scaled features are clamped to plus and minus this.
MAX_FEATURE = 10.0


class LogMCDropoutVariance(nn.Module):
    r"""Log of the variance of the class probabilities under dropout before the last layer.

    The variance is summed over classes. Without draws it is that of the softmax to first order
    around its value without dropout,
    :math:`\frac{p}{1-p} \sum_j z_j^2 \sum_c q_c^2 (W_{cj} - \sum_k q_k W_{kj})^2` for inputs z,
    weights W and class probabilities q.

    Parameters
    ----------
    p : float, default=0.1
        Dropout probability in [0, 1).
    n_draws : int, default=None
        Number >= 2 of dropout masks, drawn in `fit` and shared by all rows; None is the closed
        form.
    """

    weight: Tensor
    bias: Tensor
    masks: Tensor

    def __init__(self, p: float = 0.1, n_draws: int | None = None) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p must be in [0, 1); got {p}.")
        if n_draws is not None and n_draws < 2:
            raise ValueError(f"n_draws must be >= 2, as a variance needs, or None; got {n_draws}.")
        self.p = p
        self.n_draws = n_draws

    def fit(
        self, rows: Encoded, y: Tensor, head: nn.Linear, generator: torch.Generator
    ) -> LogMCDropoutVariance:
        """Keep the weights of the last layer, and draw masks."""
        weight = head.weight.detach()
        bias = weight.new_zeros(len(weight)) if head.bias is None else head.bias.detach()
        self.register_buffer("weight", weight.clone())
        self.register_buffer("bias", bias.clone())
        share = torch.empty(self.n_draws or 0, weight.shape[1], dtype=torch.float64)
        keep = share.uniform_(generator=generator) >= self.p
        self.register_buffer("masks", keep.to(weight) / (1 - self.p))
        return self

    def transform(self, rows: Encoded) -> Tensor:
        """Return the log variance of each row, float64."""
        variance = self._first_order(rows) if self.n_draws is None else self._sampled(rows)
        return (variance + VARIANCE_EPS).log()

    def _first_order(self, rows: Encoded) -> Tensor:
        weight = self.weight.double()
        proba = rows.logits.double().softmax(-1)
        squared = proba.square()
        mean = proba @ weight
        spread = squared @ weight.square() - 2 * mean * (squared @ weight)
        spread += squared.sum(1, keepdim=True) * mean.square()
        # A sum of squares, which rounding must not make negative.
        spread.clamp_(min=0)
        return self.p / (1 - self.p) * (rows.hidden.double().square() * spread).sum(1)

    def _sampled(self, rows: Encoded) -> Tensor:
        def proba(mask: Tensor) -> Tensor:
            return ((rows.hidden * mask) @ self.weight.T + self.bias).double().softmax(-1)

        # Sums of differences from the first draw: equal draws have no variance at all.
        first = proba(self.masks[0])
        total, total_squares = torch.zeros_like(first), torch.zeros_like(first)
        for mask in self.masks[1:]:
            difference = proba(mask) - first
            total += difference
            total_squares += difference.square()
        n = len(self.masks)
        return ((total_squares - total.square() / n) / (n - 1)).sum(1).clamp(min=0)


def log10_error(logits: Tensor, y: Tensor) -> Tensor:
    """Return log10 of the error of each row, at least -5.

    Parameters
    ----------
    logits : Tensor of shape (n, n_classes)
        Predictions.
    y : Tensor of shape (n,), int64
        Class indices.

    Returns
    -------
    Tensor of shape (n,), float64
        log10 of the binary cross-entropy, nats, between class probabilities and one-hot label,
        summed over classes.
    """
    log_proba = logits.double().log_softmax(-1)
    # log(1 - p) of the largest p is the log of the sum of the others: no digits are lost.
    largest = log_proba.argmax(-1, keepdim=True)
    others = log_proba.scatter(-1, largest, -math.inf)
    log_complement = torch.log1p(-others.exp()).scatter(
        -1, largest, others.logsumexp(-1, keepdim=True)
    )
    chosen = y[:, None]
    error = -log_proba.gather(-1, chosen) - log_complement.scatter(-1, chosen, 0.0).sum(
        -1, keepdim=True
    )
    return error[:, 0].log10().clamp(min=MIN_LOG10_ERROR)


FEATURES: dict[str, type[nn.Module]] = {
    "log_gmm_density": LogGMMDensity,
    "log_mc_dropout_variance": LogMCDropoutVariance,
    "log_flow_density": LogFlowDensity,
}


class ScaledFeatures(nn.Module):
    """Features of encoded rows, each scaled to [0, 1] on the training rows and clamped to +-10.

    Parameters
    ----------
    features : sequence of str or object
        Names of `FEATURES`, or objects with ``fit(rows, y, head, generator)`` and
        ``transform(rows) -> (n,)`` for `Encoded` rows; objects are copied.

    Raises
    ------
    ValueError
        If a name is not known, or what a feature returns is not finite or has the wrong shape.
    TypeError
        If an object has no `fit` or `transform`.
    """

    least: Tensor
    range: Tensor

    def __init__(self, features: Sequence[Any]) -> None:
        super().__init__()
        self.features = [_make(spec) for spec in features]
        # Those that are modules move and are saved with the network; others are only kept.
        self.registered = nn.ModuleList(f for f in self.features if isinstance(f, nn.Module))
        self.register_buffer("least", torch.zeros(len(self.features), dtype=torch.float64))
        self.register_buffer("range", torch.ones(len(self.features), dtype=torch.float64))

    def fit(
        self, rows: Encoded, y: Tensor, head: nn.Linear, generator: torch.Generator
    ) -> ScaledFeatures:
        """Fit all features to training rows, and how they are scaled."""
        for feature in self.features:
            feature.fit(rows, y, head, generator)
        values = self._values(rows)
        least, most = values.amin(0), values.amax(0)
        self.least, self.range = least, torch.where(most > least, most - least, 1.0)
        return self

    def forward(self, rows: Encoded) -> Tensor:
        """Return the scaled features, ``(n, n_features)``, of the dtype of the rows."""
        scaled = (self._values(rows) - self.least) / self.range
        return scaled.clamp(-MAX_FEATURE, MAX_FEATURE).to(rows.hidden.dtype)

    def _values(self, rows: Encoded) -> Tensor:
        columns = []
        for feature in self.features:
            values = feature.transform(rows)
            try:
                if isinstance(values, Tensor):
                    numbers = values.to(rows.hidden.device, torch.float64, copy=True)
                else:
                    array = np.array(values, dtype=np.float64)
                    numbers = torch.as_tensor(array, device=rows.hidden.device)
            except (TypeError, ValueError):
                numbers = torch.empty(0)
            complex_ = isinstance(values, Tensor) and values.is_complex()
            if numbers.shape != (len(rows.hidden),) or complex_ or not numbers.isfinite().all():
                raise ValueError(
                    f"The feature {type(feature).__name__} must return one finite number a row, "
                    f"shape {(len(rows.hidden),)}; got {values!r}."
                )
            columns.append(numbers)
        return torch.stack(columns, 1)


def _make(spec: Any) -> Any:
    names = ", ".join(map(repr, FEATURES))
    if isinstance(spec, str):
        if spec not in FEATURES:
            raise ValueError(
                f"{spec!r} is no feature; there are {names}. A feature of your own is an object "
                "with fit and transform."
            )
        return FEATURES[spec]()
    if isinstance(spec, type) or not (hasattr(spec, "fit") and hasattr(spec, "transform")):
        raise TypeError(
            f"A feature is a name, {names}, or an object with fit and transform; got {spec!r}."
        )
    return copy.deepcopy(spec)
