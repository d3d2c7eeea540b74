"""How well uncertainty does its work: whether errors, or rows from elsewhere, come first.

Functions of arrays, in the manner of :mod:`sklearn.metrics`, and scorers for searches. Where
scikit-learn has the metric (log loss, Brier score), its own is used.
"""

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import unique_labels

from .uncertainty import predict_uncertainty

__all__ = [
    "area_under_risk_coverage",
    "error_detection_auroc",
    "error_detection_auroc_scorer",
    "excess_area_under_risk_coverage",
    "expected_calibration_error",
    "neg_area_under_risk_coverage_scorer",
    "neg_expected_calibration_error_scorer",
    "ood_auroc",
    "ood_fpr_at_tpr",
]


def error_detection_auroc(y_true: ArrayLike, y_pred: ArrayLike, uncertainty: ArrayLike) -> float:
    """Compute how well uncertainty tells wrong predictions from right ones.

    The area under the ROC curve with the wrong predictions as the positive class: the
    probability that a wrong prediction is more uncertain than a right one, ties counting half.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    uncertainty : array-like of shape (n_samples,)
        Uncertainty of each prediction in any unit, higher where less sure; finite. Only its
        order matters.

    Returns
    -------
    auroc : float
        Between 0 and 1. 1 ranks every error first, 0.5 is chance, less than 0.5 is worse than
        chance. NaN where every prediction is right, or every one is wrong.

    Raises
    ------
    ValueError
        If an argument is empty, has the wrong shape or holds NaN, if `uncertainty` holds
        infinity, if the lengths differ, or if the labels mix strings and numbers.

    Warns
    -----
    UndefinedMetricWarning
        If the result is NaN.

    See Also
    --------
    ood_auroc : Rank rows from elsewhere instead of errors.

    References
    ----------
    .. [1] D. Hendrycks and K. Gimpel, "A baseline for detecting misclassified and
       out-of-distribution examples in neural networks", ICLR 2017.

    Examples
    --------
    >>> from sklearn_probly.metrics import error_detection_auroc
    >>> error_detection_auroc([0, 1, 1, 0], [0, 1, 0, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    wrong, scores = _check_predictions(y_true, y_pred, uncertainty)
    if wrong.all() or not wrong.any():
        warnings.warn(
            f"error_detection_auroc is undefined and set to NaN: {wrong.sum()} of the {len(wrong)} "
            "predictions are wrong, and it needs both wrong and right ones. Use more samples.",
            UndefinedMetricWarning,
            stacklevel=2,
        )
        return float("nan")
    return float(roc_auc_score(wrong, scores))


def ood_auroc(uncertainty_in: ArrayLike, uncertainty_out: ArrayLike) -> float:
    """Compute how well uncertainty tells out-of-distribution rows from the usual ones.

    The area under the ROC curve with the out-of-distribution rows as the positive class: the
    probability that such a row is more uncertain than a usual one, ties counting half.

    Parameters
    ----------
    uncertainty_in : array-like of shape (n_samples_in,)
        Uncertainty of rows like those of training, higher where less sure; finite.
    uncertainty_out : array-like of shape (n_samples_out,)
        Uncertainty of rows from elsewhere, in the same unit; finite.

    Returns
    -------
    auroc : float
        Between 0 and 1. 1 ranks every foreign row first, 0.5 is chance; less than 0.5 usually
        means that the sign of the uncertainty is wrong.

    Raises
    ------
    ValueError
        If an argument is empty, has the wrong shape or is not finite.

    See Also
    --------
    error_detection_auroc : Rank errors instead of rows from elsewhere.

    References
    ----------
    .. [1] D. Hendrycks and K. Gimpel, "A baseline for detecting misclassified and
       out-of-distribution examples in neural networks", ICLR 2017.

    Examples
    --------
    >>> from sklearn_probly.metrics import ood_auroc
    >>> ood_auroc([0.2, 0.5], [0.4, 0.9])
    0.75
    """
    inside = _check_uncertainty(uncertainty_in, "uncertainty_in")
    outside = _check_uncertainty(uncertainty_out, "uncertainty_out")
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    return float(roc_auc_score(is_outside, np.concatenate([inside, outside])))


def ood_fpr_at_tpr(
    uncertainty_in: ArrayLike, uncertainty_out: ArrayLike, tpr: float = 0.95
) -> float:
    """Compute how many usual rows are taken for foreign when most foreign rows are found.

    Rows are taken for foreign from a threshold of uncertainty on: the highest that finds a share
    `tpr` of the foreign rows.

    Parameters
    ----------
    uncertainty_in : array-like of shape (n_samples_in,)
        Uncertainty of rows like those of training, higher where less sure; finite.
    uncertainty_out : array-like of shape (n_samples_out,)
        Uncertainty of rows from elsewhere, in the same unit; finite.
    tpr : float, default=0.95
        Share of the foreign rows to find, in (0, 1].

    Returns
    -------
    fpr : float
        Share of the usual rows at or above the threshold, between 0 (best) and 1.

    Raises
    ------
    ValueError
        If an argument is empty, has the wrong shape or is not finite, or `tpr` is out of range.

    See Also
    --------
    ood_auroc : The same over all thresholds.

    References
    ----------
    .. [1] S. Liang, Y. Li, R. Srikant, "Enhancing the reliability of out-of-distribution image
       detection in neural networks", ICLR 2018.

    Examples
    --------
    >>> from sklearn_probly.metrics import ood_fpr_at_tpr
    >>> ood_fpr_at_tpr([0.2, 0.5, 0.6, 0.9], [0.55, 0.7, 0.8, 1.0], tpr=0.75)
    0.25
    """
    inside = _check_uncertainty(uncertainty_in, "uncertainty_in")
    outside = np.sort(_check_uncertainty(uncertainty_out, "uncertainty_out"))
    if not isinstance(tpr, Real) or not 0 < tpr <= 1:
        raise ValueError(f"tpr must be in (0, 1]; got {tpr!r}.")
    # Rounding must not turn 0.95 * 20 into more than 19.
    found = max(int(np.ceil(tpr * len(outside) - 1e-9)), 1)
    return float((inside >= outside[-found]).mean())


def area_under_risk_coverage(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    uncertainty: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the mean error rate among the k most certain rows, over all k.

    The area under the curve of selective risk against coverage: how wrong one is, on average over
    how many rows one answers, when the least certain are left out first.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    uncertainty : array-like of shape (n_samples,)
        Uncertainty of each prediction in any unit, higher where less sure; finite. Only its order
        matters. Rows of equal uncertainty count with their mean error, as if in random order.
    sample_weight : array-like of shape (n_samples,), default=None
        How many rows each stands for, >= 0: a weight of 3 is three equal rows.

    Returns
    -------
    area : float
        Between 0 (best) and 1; the error rate if all uncertainties are equal.

    Raises
    ------
    ValueError
        If an argument is empty, has the wrong shape, is negative (weights) or not finite.

    See Also
    --------
    excess_area_under_risk_coverage : The same, less the best that the errors allow.

    References
    ----------
    .. [1] Y. Geifman, G. Uziel, R. El-Yaniv, "Bias-reduced uncertainty estimation for deep neural
       classifiers", ICLR 2019.

    Examples
    --------
    >>> from sklearn_probly.metrics import area_under_risk_coverage
    >>> area = area_under_risk_coverage([0, 0, 0, 0], [0, 0, 1, 0], [0.1, 0.2, 0.3, 0.4])
    >>> round(area, 6)
    0.145833
    """
    wrong, scores = _check_predictions(y_true, y_pred, uncertainty)
    return _area(wrong, scores, _check_weight(sample_weight, wrong))


def excess_area_under_risk_coverage(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    uncertainty: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute `area_under_risk_coverage` less that of a perfect ranking of the same errors.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    uncertainty : array-like of shape (n_samples,)
        Uncertainty of each prediction in any unit, higher where less sure; finite.
    sample_weight : array-like of shape (n_samples,), default=None
        How many rows each stands for, >= 0.

    Returns
    -------
    area : float
        At least 0, which ranks every error last.

    Raises
    ------
    ValueError
        As in `area_under_risk_coverage`.

    References
    ----------
    .. [1] Y. Geifman, G. Uziel, R. El-Yaniv, "Bias-reduced uncertainty estimation for deep neural
       classifiers", ICLR 2019.

    Examples
    --------
    >>> from sklearn_probly.metrics import excess_area_under_risk_coverage
    >>> area = excess_area_under_risk_coverage([0, 0, 0, 0], [0, 0, 1, 0], [0.1, 0.2, 0.3, 0.4])
    >>> round(area, 6)
    0.083333
    """
    wrong, scores = _check_predictions(y_true, y_pred, uncertainty)
    weight = _check_weight(sample_weight, wrong)
    # The difference of equal areas is 0, whatever rounding says.
    return max(_area(wrong, scores, weight) - _area(wrong, wrong.astype(float), weight), 0.0)


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
        Bins of equal width, ``((b - 1) / n_bins, b / n_bins]``, or of equal numbers of rows.
    labels : array-like of shape (n_classes,), default=None
        All labels; None is those in `y_true`.

    Returns
    -------
    error : float
        Between 0 (best) and 1.

    Raises
    ------
    ValueError
        If shapes do not fit, probabilities are outside [0, 1] or rows do not sum to 1, if `y_true`
        holds other labels than `labels`, or a parameter is out of range.

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
    if not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins must be an int >= 1; got {n_bins!r}.")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy must be 'uniform' or 'quantile'; got {strategy!r}.")
    true = np.asarray(column_or_1d(y_true))
    classes = unique_labels(true) if labels is None else np.unique(np.asarray(labels))
    unknown = np.setdiff1d(true, classes)
    if len(unknown):
        raise ValueError(f"y_true holds labels that are not in labels: {unknown.tolist()}.")
    proba = _check_proba(y_proba, len(classes))
    check_consistent_length(true, proba)
    confidence = proba.max(axis=1)
    right = classes[proba.argmax(axis=1)] == true
    if strategy == "uniform":
        # Rounding must not put a confidence of b / n_bins in the bin above.
        bins = np.clip(np.ceil(confidence * n_bins - 1e-9).astype(int), 1, n_bins) - 1
    else:
        bins = np.empty(len(true), dtype=int)
        bins[np.argsort(confidence, kind="stable")] = np.arange(len(true)) * n_bins // len(true)
    gaps = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(true))


def error_detection_auroc_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score a fitted estimator by `error_detection_auroc`.

    Parameters
    ----------
    estimator : estimator instance
        As in `sklearn_probly.predict_uncertainty`.
    X : array-like of shape (n_samples, ...)
        Rows.
    y : array-like of shape (n_samples,)
        True labels.

    Returns
    -------
    score : float
        Higher is better; NaN, with a warning, where no prediction or every one is wrong.
    """
    return error_detection_auroc(y, estimator.predict(X), predict_uncertainty(estimator, X))


def neg_area_under_risk_coverage_scorer(
    estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None
) -> float:
    """Score a fitted estimator by the negative of `area_under_risk_coverage`.

    Parameters
    ----------
    estimator : estimator instance
        As in `sklearn_probly.predict_uncertainty`.
    X : array-like of shape (n_samples, ...)
        Rows.
    y : array-like of shape (n_samples,)
        True labels.
    sample_weight : array-like of shape (n_samples,), default=None
        How many rows each stands for.

    Returns
    -------
    score : float
        Higher is better, at most 0.
    """
    uncertainty = predict_uncertainty(estimator, X)
    return -area_under_risk_coverage(y, estimator.predict(X), uncertainty, sample_weight)


def neg_expected_calibration_error_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Score a fitted classifier by the negative of `expected_calibration_error`.

    Parameters
    ----------
    estimator : estimator instance
        A classifier with `predict_proba`.
    X : array-like of shape (n_samples, ...)
        Rows.
    y : array-like of shape (n_samples,)
        True labels.

    Returns
    -------
    score : float
        Higher is better, at most 0.
    """
    return -expected_calibration_error(y, estimator.predict_proba(X), labels=estimator.classes_)


def _area(wrong: NDArray[Any], scores: NDArray[Any], weight: NDArray[np.float64]) -> float:
    _, block = np.unique(scores, return_inverse=True)
    rows = np.bincount(block, weights=weight)
    errors = np.bincount(block, weights=weight * wrong)
    used = rows > 0
    rows, errors = rows[used], errors[used]
    before, errors_before = np.cumsum(rows) - rows, np.cumsum(errors) - errors
    rate = errors / rows
    # In a block of equal scores the j-th row adds (errors_before + j rate) / (before + j); the sum
    # over j of 1 / (before + j) is a difference of digammas, also where weights are no integers.
    inverse = digamma(before + rows + 1) - digamma(before + 1)
    area = (rows * rate + (errors_before - before * rate) * inverse).sum() / rows.sum()
    return float(np.clip(area, 0, 1))


def _check_predictions(
    y_true: ArrayLike, y_pred: ArrayLike, uncertainty: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which predictions are wrong, and the uncertainties."""
    scores = _check_uncertainty(uncertainty)
    true, pred = np.asarray(column_or_1d(y_true)), np.asarray(column_or_1d(y_pred))
    check_consistent_length(true, pred, scores)
    unique_labels(true, pred)  # refuses NaN, and strings beside numbers
    return np.asarray(true != pred), scores


def _check_weight(sample_weight: ArrayLike | None, wrong: NDArray[Any]) -> NDArray[np.float64]:
    if sample_weight is None:
        return np.ones(len(wrong))
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != wrong.shape or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            f"sample_weight must be {len(wrong)} finite numbers >= 0; got {sample_weight!r}."
        )
    if not weight.any():
        raise ValueError("sample_weight is zero for every row; give a row some weight.")
    return weight


def _check_proba(y_proba: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    proba = np.asarray(y_proba, dtype=np.float64)
    if proba.ndim == 1:
        proba = np.column_stack([1 - proba, proba])
    if proba.ndim != 2 or proba.shape[1] != n_classes:
        raise ValueError(
            f"y_proba must have a column for each of the {n_classes} labels; got shape "
            f"{np.shape(y_proba)}. Give all labels as labels if y_true lacks some."
        )
    if not ((proba >= 0).all() and np.allclose(proba.sum(axis=1), 1, atol=1e-4)):
        raise ValueError("Each row of y_proba must hold numbers >= 0 that sum to 1.")
    return proba


def _check_uncertainty(uncertainty: ArrayLike, name: str = "uncertainty") -> NDArray[np.float64]:
    scores = np.asarray(uncertainty, dtype=np.float64)
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(
            f"{name} must have shape (n_samples,) with at least one sample; got shape "
            f"{scores.shape}. Pass one number a row, as predict_uncertainty returns."
        )
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"{name} must be finite; got {scores[row]} at row {row}. Leave such rows out."
        )
    return scores
