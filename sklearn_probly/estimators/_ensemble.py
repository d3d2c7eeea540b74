"""Estimators whose prediction is the mean of members' class probabilities."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..modules.members import entropy, moments
from ._partial_fit import PartialFitClassifier


class BaseEnsembleClassifier(PartialFitClassifier):
    """Base of the methods with members; total uncertainty = aleatoric + epistemic, bits."""

    _uncertainty_units: ClassVar[dict[str, str]] = {
        "total": "bits",
        "aleatoric": "bits",
        "epistemic": "bits",
    }

    def predict_proba_members(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class probabilities of each member.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_members, n_samples, n_classes)
            Their mean over the first axis is `predict_proba`.
        """
        rows = self._check_rows(X)
        chunks = [parts[0].cpu().numpy() for _, parts in self._chunks(rows, _member_proba)]
        return np.concatenate(chunks, axis=1)

    def _predict_chunk(
        self, module: nn.Module, rows: Tensor, kind: str | None
    ) -> tuple[Tensor, Tensor]:
        logits = module(rows)
        if kind in (None, "total"):  # no member's entropy is needed
            mean_proba = logits.double().softmax(-1).mean(0)
            return mean_proba, entropy(mean_proba) if kind else mean_proba
        parts = moments(logits)
        return parts.mean_proba, getattr(parts, kind)


def _member_proba(module: nn.Module, rows: Tensor) -> tuple[Tensor]:
    return (module(rows).softmax(-1),)
