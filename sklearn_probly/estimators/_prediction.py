"""Predictions of a fitted net: chunks of rows in, labels, probabilities and uncertainties out."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from ..modules.generators import borrowed_global_generators
from ..modules.members import MemberwiseModule
from ._net import MemberNet
from ._validation import FLOATS, check_row_shape, to_tensor


class PredictionMixin:
    """Predictions of all classifiers; a method supplies `_predict_chunk` and its units."""

    # kind -> unit; a subclass says why it does not define one of the three in `_undefined_kinds`.
    _uncertainty_units: ClassVar[dict[str, str]]
    _undefined_kinds: ClassVar[dict[str, str]] = {}

    net_: MemberNet
    classes_: NDArray[Any]
    uncertainty_kinds_: tuple[str, ...]
    batch_size: int
    _validate_params: Callable[[], None]

    @abstractmethod
    def _predict_chunk(
        self, module: nn.Module, rows: Tensor, kind: str | None
    ) -> tuple[Tensor, Tensor]:
        """Return probabilities ``(n, n_classes)`` and uncertainties ``(n,)`` of a chunk of rows.

        `module` is `module_`, in the form that is quickest at prediction. Under `kind` None no
        uncertainty is wanted; anything may take its place.
        """

    @property
    def module_(self) -> MemberwiseModule:
        """The trained `torch.nn.Module`."""
        check_is_fitted(self)
        return self.net_.module_

    @property
    def history_(self) -> Any:
        """Skorch's history of the main phase."""
        check_is_fitted(self)
        return self.net_.history

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels of the dtype of `y` in `fit`.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`; of the type `dtype`.
        """
        return self._predict(X, proba=True, uncertainty=False)[0]

    def predict_log_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities, nats; minus infinity where a probability is 0.
        """
        with np.errstate(divide="ignore", under="ignore"):
            return np.log(self.predict_proba(X))

    def predict_uncertainty(self, X: ArrayLike, kind: str | None = None) -> NDArray[np.float64]:
        """Return how unsure each prediction is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        kind : {"total", "aleatoric", "epistemic"}, default=None
            What to measure; None is the first of `uncertainty_kinds_`.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            Higher is less sure; the unit is ``uncertainty_units_[kind]``.

        Raises
        ------
        ValueError
            If the method does not define `kind`.
        """
        return self._predict(X, kind, proba=False)[1]

    def predict_with_uncertainty(
        self, X: ArrayLike, kind: str | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return `predict_proba` and `predict_uncertainty` in one pass.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        kind : {"total", "aleatoric", "epistemic"}, default=None
            As in `predict_uncertainty`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Class probabilities.
        uncertainty : ndarray of shape (n_samples,), float64
            Uncertainty.
        """
        return self._predict(X, kind)

    def _predict(
        self, X: ArrayLike, kind: str | None = None, *, proba: bool = True, uncertainty: bool = True
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return what is asked for; an array that is not stays empty."""
        X = self._check_rows(X)
        if kind is None:
            kind = self.uncertainty_kinds_[0]
        if kind not in self.uncertainty_kinds_:
            reason = self._undefined_kinds.get(str(kind), "there is no such kind")
            raise ValueError(
                f"kind={kind!r} is not defined for {type(self).__name__}: {reason}. It defines "
                f"{', '.join(map(repr, self.uncertainty_kinds_))}."
            )
        probas = np.empty((len(X) if proba else 0, len(self.classes_)), self._weights_dtype())
        uncertainties = np.empty(len(X) if uncertainty else 0)
        for rows, parts in self._chunks(
            X, partial(self._predict_chunk, kind=kind if uncertainty else None)
        ):
            if proba:
                probas[rows] = parts[0].cpu().numpy()
            if uncertainty:
                uncertainties[rows] = parts[1].cpu().numpy()
        return probas, uncertainties

    def _check_rows(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype="numeric", allow_nd=True, reset=False)
        check_row_shape(rows, self.net_.row_shape_)
        if not isinstance(self.batch_size, Integral) or self.batch_size < 1:
            self._validate_params()  # set since; says what is allowed
        return rows

    def _weights_dtype(self) -> Any:
        weights = next(self.module_.parameters())
        return FLOATS[str(weights.dtype).removeprefix("torch.")][0]

    def _chunks(
        self, X: NDArray[Any], predict: Callable[[nn.Module, Tensor], tuple[Tensor, ...]]
    ) -> Iterator[tuple[slice, tuple[Tensor, ...]]]:
        """Yield what `predict` makes of chunks of checked rows; probabilities come first.

        Chunks are converted one at a time: no copy of `X` is made.
        """
        seed, dtype = self.net_.own_seed_, self._weights_dtype()
        device = next(self.module_.parameters()).device
        with torch.inference_mode():
            module = self.module_.for_prediction()
        size = int(self.batch_size)  # one of NumPy's would overflow
        for start in range(0, len(X), size):
            rows = slice(start, min(start + size, len(X)))
            with (
                torch.inference_mode(),
                torch.autocast(device.type, enabled=False),
                nullcontext() if seed is None else borrowed_global_generators(seed),
            ):
                parts = predict(module, to_tensor(X[rows], dtype, device))
                # One sum instead of a test of each element: NaN, from infinite logits, survives it.
                finite = math.isfinite(parts[0].sum())
            if not finite:
                raise ValueError(
                    "Input X contains infinity or a value too large for the network: the "
                    f"largest |X| among rows {start} to {rows.stop - 1} is "
                    f"{float(np.abs(X[rows]).max()):.3g}. Scale the features."
                )
            yield rows, parts
