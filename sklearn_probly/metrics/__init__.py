"""How well uncertainty does its work: whether errors, or rows from elsewhere, come first.

Functions of arrays, in the manner of :mod:`sklearn.metrics`, and scorers for searches. Where
scikit-learn has the metric (log loss, Brier score), its own is used.
"""

from ._calibration import expected_calibration_error
from ._ranking import error_detection_auroc, ood_auroc, ood_fpr_at_tpr
from ._risk_coverage import area_under_risk_coverage, excess_area_under_risk_coverage
from ._scorers import (
    error_detection_auroc_scorer,
    neg_area_under_risk_coverage_scorer,
    neg_expected_calibration_error_scorer,
)

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
