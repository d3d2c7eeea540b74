"""How wrong one is when the least certain rows are left out."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma

from ._checks import check_predictions


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
        How many rows each stands for, >= 0, one of them > 0: a weight of 3 gives what three
        equal rows give. As weights are numbers of rows, three times all of them is another value,
        that of three times the rows; weights that are no integers go on smoothly in between.

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
    wrong, scores = check_predictions(y_true, y_pred, uncertainty)
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
    wrong, scores = check_predictions(y_true, y_pred, uncertainty)
    weight = _check_weight(sample_weight, wrong)
    # The difference of equal areas is 0, whatever rounding says.
    return max(_area(wrong, scores, weight) - _area(wrong, wrong.astype(float), weight), 0.0)


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


def _check_weight(sample_weight: ArrayLike | None, wrong: NDArray[Any]) -> NDArray[np.float64]:
    if sample_weight is None:
        return np.ones(len(wrong))
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != wrong.shape or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            f"sample_weight must be {len(wrong)} finite numbers >= 0; got {sample_weight!r}."
        )
    with np.errstate(over="ignore"):
        overflows = not np.isfinite(weight.sum())
    if overflows:
        raise ValueError("The sum of sample_weight overflows; divide the weights by their largest.")
    if not weight.any():
        raise ValueError("sample_weight is zero for every row; give a row some weight.")
    return weight
