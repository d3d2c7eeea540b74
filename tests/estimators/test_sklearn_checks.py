"""scikit-learn's own checks, at the estimators' defaults."""

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from ._settings import ESTIMATORS, EXPECTED_FAILURES, small


@parametrize_with_checks(
    [small(cls, dtype=dtype, max_epochs=100) for cls in ESTIMATORS for dtype in EXPECTED_FAILURES],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[estimator.dtype],
)
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EXPECTED_FAILURES)
@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator_at_the_defaults(cls, dtype):
    check_estimator(cls(dtype=dtype), expected_failed_checks=EXPECTED_FAILURES[dtype])
