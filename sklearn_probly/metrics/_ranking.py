"""Whether errors, or rows from elsewhere, come first."""

import warnings
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import roc_auc_score

from ._checks import check_predictions, check_uncertainty


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
    wrong, scores = check_predictions(y_true, y_pred, uncertainty)
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
        Between 0 and 1. 1 ranks every row out of distribution first, 0.5 is chance; less than 0.5
        usually means that the sign of the uncertainty is wrong.

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
    inside = check_uncertainty(uncertainty_in, "uncertainty_in")
    outside = check_uncertainty(uncertainty_out, "uncertainty_out")
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    return float(roc_auc_score(is_outside, np.concatenate([inside, outside])))


def ood_fpr_at_tpr(
    uncertainty_in: ArrayLike, uncertainty_out: ArrayLike, tpr: float = 0.95
) -> float:
    """Compute the false-positive rate at which most rows out of distribution are found.

    Rows are taken for out of distribution from a threshold of uncertainty on: the highest that
    finds a share `tpr` of those that are.

    Parameters
    ----------
    uncertainty_in : array-like of shape (n_samples_in,)
        Uncertainty of rows like those of training, higher where less sure; finite.
    uncertainty_out : array-like of shape (n_samples_out,)
        Uncertainty of rows from elsewhere, in the same unit; finite.
    tpr : float, default=0.95
        Share of the rows out of distribution to find, in (0, 1].

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
    inside = check_uncertainty(uncertainty_in, "uncertainty_in")
    outside = np.sort(check_uncertainty(uncertainty_out, "uncertainty_out"))
    if not isinstance(tpr, Real) or not 0 < tpr <= 1:
        raise ValueError(f"tpr must be in (0, 1]; got {tpr!r}.")
    # Rounding must not turn 0.95 * 20 into more than 19.
    found = max(int(np.ceil(tpr * len(outside) - 1e-9)), 1)
    return float((inside >= outside[-found]).mean())
