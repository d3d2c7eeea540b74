"""Estimators whose prediction is the mean of members' class probabilities."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..measures import decompose_moments
from ..modules.members import moments
from ._base import BaseTorchClassifier


class BaseEnsembleClassifier(BaseTorchClassifier):
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
        chunks = [logits.softmax(-1).cpu().numpy() for _, logits in self._chunks(X)]
        return np.concatenate(chunks, axis=1)

    def _predict(self, X: ArrayLike, kind: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
        probas, uncertainties = [], []
        for _, logits in self._chunks(X):
            with torch.inference_mode():
                chunk = moments(logits)
                probas.append(chunk.mean_proba.to(logits.dtype).cpu().numpy())
            parts = decompose_moments(
                chunk.mean_proba.cpu().numpy(), chunk.mean_entropy.cpu().numpy()
            )
            uncertainties.append(getattr(parts, kind))
        return np.concatenate(probas), np.concatenate(uncertainties)
