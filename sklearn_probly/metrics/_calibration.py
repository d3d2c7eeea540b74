"""How far confidence is from accuracy."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import unique_labels


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    labels: ArrayLike | None = None,
) -> float:
    """Compute how far confidence is from accuracy.

    Rows are put in bins by their confidence, the largest class probability; the result is the mean,
    weighted by the rows in a bin, of ``|accuracy - mean confidence|``. It is biased upward for few
    rows: compare at equal numbers of rows and bins only.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, columns in the order of the sorted labels; of one dimension, the
        probability of the second of two labels.
    n_bins : int, default=15
        Number of bins, >= 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, ``((b - 1) / n_bins, b / n_bins]``, or of equal numbers of rows. Rows
        of equal confidence count with their mean accuracy, so that the order of rows is of no
        matter where such rows come into different bins.
    labels : array-like of shape (n_classes,), default=None
        All labels; None is those in `y_true`.

    Returns
    -------
    error : float
        Between 0 (best) and 1.

    Raises
    ------
    ValueError
        If there are no rows, shapes do not fit, probabilities are outside [0, 1] or rows do not
        sum to 1, if `y_true` holds other labels than `labels`, or a parameter is out of range.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural networks",
       ICML 2017.

    Examples
    --------
    >>> from sklearn_probly.metrics import expected_calibration_error
    >>> proba = [0.45, 0.42, 0.92, 0.95]
    >>> round(expected_calibration_error([1, 0, 1, 1], proba, n_bins=10), 3)
    0.065
    """
    if not isinstance(n_bins, Integral) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins must be an int >= 1; got {n_bins!r}.")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy must be 'uniform' or 'quantile'; got {strategy!r}.")
    true = np.asarray(column_or_1d(y_true))
    if len(true) == 0:
        raise ValueError("y_true must have at least one sample; got 0.")
    classes = unique_labels(true) if labels is None else np.unique(np.asarray(labels))
    unknown = np.setdiff1d(true, classes)
    if len(unknown):
        raise ValueError(f"y_true holds labels that are not in labels: {unknown.tolist()}.")
    proba = _check_proba(y_proba, len(classes))
    check_consistent_length(true, proba)
    confidence = proba.max(axis=1)
    right = (classes[proba.argmax(axis=1)] == true).astype(float)
    if strategy == "uniform":
        # Rounding must not put a confidence of b / n_bins in the bin above.
        bins = np.clip(np.ceil(confidence * n_bins - 1e-9).astype(int), 1, n_bins) - 1
    else:
        _, block = np.unique(confidence, return_inverse=True)
        right = (np.bincount(block, weights=right) / np.bincount(block))[block]
        bins = np.empty(len(true), dtype=int)
        bins[np.argsort(confidence, kind="stable")] = np.arange(len(true)) * n_bins // len(true)
    gaps = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(true))


def _check_proba(y_proba: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    proba = np.asarray(y_proba, dtype=np.float64)
    if proba.ndim == 1:
        proba = np.column_stack([1 - proba, proba])
    if proba.ndim != 2 or proba.shape[1] != n_classes:
        raise ValueError(
            f"y_proba must have a column for each of the {n_classes} labels; got shape "
            f"{np.shape(y_proba)}. Give all labels as labels if y_true lacks some."
        )
    good = (proba >= 0).all(axis=1) & (np.abs(proba.sum(axis=1) - 1) <= 1e-3)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            "Each row of y_proba must hold numbers >= 0 that sum to 1 (of one dimension, a number "
            f"in [0, 1]); got {np.asarray(y_proba)[row].tolist()} at row {row}. Pass "
            "probabilities, as predict_proba returns, not logits or percentages."
        )
    return proba
