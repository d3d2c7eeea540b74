import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_probly.metrics import error_detection_auroc, ood_auroc

scores = st.lists(st.integers(0, 9), min_size=1, max_size=12)


def pairs_won(low, high):
    """P(high > low) + P(tie) / 2, counted pair by pair."""
    gap = np.subtract.outer(np.asarray(high), np.asarray(low))
    return np.mean((gap > 0) + 0.5 * (gap == 0))


def test_error_detection_by_hand():
    u = [0.1, 0.4, 0.35, 0.8]
    assert error_detection_auroc([0, 1, 1, 0], [0, 1, 0, 1], u) == 0.75
    assert error_detection_auroc(["a", "b", "b", "a"], ["a", "b", "a", "c"], u) == 0.75
    assert type(error_detection_auroc([0, 1], [0, 0], [1, 2])) is float


def test_ood_by_hand():
    assert ood_auroc([0.2, 0.5], [0.4, 0.9]) == 0.75
    assert ood_auroc([1, 1, 1], [1]) == 0.5
    assert type(ood_auroc([0], [1])) is float


@settings(max_examples=50)
@given(low=scores, high=scores)
def test_both_count_pairs(low, high):
    expected = pytest.approx(pairs_won(low, high))
    right = np.repeat([0, 1], [len(low), len(high)])
    assert ood_auroc(low, high) == expected
    assert error_detection_auroc(np.zeros_like(right), right, low + high) == expected
    assert ood_auroc(high, low) == pytest.approx(1 - pairs_won(low, high))


@settings(max_examples=50)
@given(low=scores, high=scores)
def test_only_the_order_counts(low, high):
    assert ood_auroc(np.exp(low), np.exp(high)) == ood_auroc(low, high)


@pytest.mark.parametrize(("y_pred", "sort"), [([0, 1, 2], "right"), ([1, 2, 0], "wrong")])
def test_error_detection_undefined(y_pred, sort):
    with pytest.warns(UndefinedMetricWarning, match=f"All 3 predictions are {sort}"):
        assert np.isnan(error_detection_auroc([0, 1, 2], y_pred, [0.1, 0.2, 0.3]))


@pytest.mark.parametrize(
    ("y_true", "y_pred", "uncertainty", "match"),
    [
        ([0, 1], [0, 0], [np.nan, 1], "Input uncertainty contains NaN"),
        ([0, 1], [0, 0], [np.inf, 1], "Input uncertainty contains infinity"),
        ([0, np.nan], [0, 0], [0, 1], "Input y_true contains NaN"),
        ([0, 1], [0, np.nan], [0, 1], "Input y_pred contains NaN"),
        ([[0, 1]], [0, 0], [0, 1], r"y_true must be one-dimensional; got shape \(1, 2\)"),
        ([0, 1], [[0], [0]], [0, 1], r"y_pred must be one-dimensional; got shape \(2, 1\)"),
        ([0, 1], [0, 0], [[0], [1]], r"uncertainty must be one-dimensional; got shape \(2, 1\)"),
        ([0, 1], [0, 0], 0.5, r"uncertainty must be one-dimensional; got shape \(\)"),
        ([0, 1], [0, 0], [0, 1, 2], r"inconsistent numbers of samples: \[2, 2, 3\]"),
        ([0, 1], [0], [0, 1], r"inconsistent numbers of samples: \[2, 1, 2\]"),
        ([], [], [], "y_true is empty"),
        ([0, 1], [0, 0], [], "uncertainty is empty"),
        (["a", "b"], [0, 1], [0, 1], "Mix of label input types"),
        ([0.5, 0.7], [0, 1], [0, 1], "Mix type of y not allowed"),
    ],
)
def test_error_detection_rejects(y_true, y_pred, uncertainty, match):
    with pytest.raises(ValueError, match=match):
        error_detection_auroc(y_true, y_pred, uncertainty)


@pytest.mark.parametrize(
    ("inside", "outside", "match"),
    [
        ([np.nan], [1], "Input uncertainty_in contains NaN"),
        ([0], [-np.inf], "Input uncertainty_out contains infinity"),
        ([[0]], [1], r"uncertainty_in must be one-dimensional; got shape \(1, 1\)"),
        ([0], 1, r"uncertainty_out must be one-dimensional; got shape \(\)"),
        ([], [1], "uncertainty_in is empty"),
        ([0], [], "uncertainty_out is empty"),
    ],
)
def test_ood_rejects(inside, outside, match):
    with pytest.raises(ValueError, match=match):
        ood_auroc(inside, outside)
