"""How well uncertainty does its work: whether errors, or rows from elsewhere, come first.

Functions of arrays, in the manner of :mod:`sklearn.metrics`.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import unique_labels

__all__ = ["error_detection_auroc", "ood_auroc"]


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
    scores = _check_uncertainty(uncertainty)
    true, pred = np.asarray(column_or_1d(y_true)), np.asarray(column_or_1d(y_pred))
    check_consistent_length(true, pred, scores)
    unique_labels(true, pred)  # refuses NaN, and strings beside numbers
    wrong = np.asarray(true != pred)
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
