"""Scorers for searches and cross-validation."""

from typing import Any

from numpy.typing import ArrayLike

from ..uncertainty import predict_uncertainty
from ._calibration import expected_calibration_error
from ._ranking import error_detection_auroc
from ._risk_coverage import area_under_risk_coverage


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
