"""scikit-learn's own checks, at the estimators' defaults."""

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from ._settings import ESTIMATORS, expected_failures, small

DTYPES = ("float32", "float64")


@parametrize_with_checks(
    [small(cls, dtype=dtype, max_epochs=100) for cls in ESTIMATORS for dtype in DTYPES],
    expected_failed_checks=expected_failures,
)
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator_at_the_defaults(cls, dtype):
    estimator = cls(dtype=dtype)
    check_estimator(estimator, expected_failed_checks=expected_failures(estimator))
