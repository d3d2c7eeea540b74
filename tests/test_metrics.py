import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_probly.metrics import error_detection_auroc, ood_auroc

SCORES = hnp.arrays(float, st.integers(1, 20), elements=st.integers(-5, 5))


def share_of_pairs_won(low, high):
    wins = np.subtract.outer(high, low)
    return np.mean((wins > 0) + 0.5 * (wins == 0))


def test_error_detection_by_hand():
    y_true, y_pred = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1])
    assert error_detection_auroc(y_true, y_pred, [0.1, 0.4, 0.35, 0.8]) == 0.75
    assert error_detection_auroc(y_true, y_pred, [0.1, 0.2, 0.8, 0.9]) == 1.0
    assert error_detection_auroc(y_true, y_pred, [0.9, 0.8, 0.2, 0.1]) == 0.0
    assert error_detection_auroc(y_true, y_pred, [0.3] * 4) == 0.5


def test_ood_by_hand():
    assert ood_auroc([0.2, 0.5], [0.4, 0.9]) == 0.75
    assert ood_auroc([0.2], [0.2, 0.2, 0.2]) == 0.5


def test_result_is_a_python_float():
    assert type(ood_auroc([1], [2])) is float
    assert type(error_detection_auroc([0, 0], [0, 1], [1, 2])) is float


@given(SCORES, SCORES)
def test_ood_is_the_share_of_pairs_won(inside, outside):
    assert ood_auroc(inside, outside) == pytest.approx(share_of_pairs_won(inside, outside))
    assert ood_auroc(outside, inside) == pytest.approx(1 - ood_auroc(inside, outside))


@given(SCORES, SCORES)
def test_errors_are_ranked_as_foreign_rows_are(right, wrong):
    y_true = np.zeros(len(right) + len(wrong), dtype=int)
    y_pred = np.repeat([0, 1], [len(right), len(wrong)])
    scores = np.concatenate([right, wrong])
    assert error_detection_auroc(y_true, y_pred, scores) == ood_auroc(right, wrong)


@given(SCORES, SCORES)
def test_only_the_order_matters(inside, outside):
    assert ood_auroc(np.exp(inside) - 3, np.exp(outside) - 3) == ood_auroc(inside, outside)


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [
        (["cat", "dog"], ["cat", "cat"]),
        (["cat", "dog"], np.array(["cat", "cat"], dtype=object)),
        ([True, False], [True, True]),
        ([-1, 7], [-1.0, -1.0]),
        (pd.Categorical(["a", "b"]), ["a", "a"]),
        (pd.Series([3, 4], index=[5, 9]), pd.Series([3, 3], index=[0, 1])),
    ],
)
def test_labels_of_any_kind(y_true, y_pred):
    assert error_detection_auroc(y_true, y_pred, [0.1, 0.2]) == 1.0


@pytest.mark.parametrize(("y_pred", "n_wrong"), [([0, 1, 0], 0), ([1, 0, 1], 3)])
def test_nan_where_undefined(y_pred, n_wrong):
    with pytest.warns(
        UndefinedMetricWarning, match=rf"{n_wrong} of the 3 predictions are wrong.*more samples"
    ):
        assert np.isnan(error_detection_auroc([0, 1, 0], y_pred, [0.1, 0.2, 0.3]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_uncertainty_must_be_finite(bad):
    with pytest.raises(ValueError, match=rf"uncertainty must be finite; got {bad} at row 1"):
        error_detection_auroc([0, 1], [0, 0], [0.1, bad])
    with pytest.raises(ValueError, match=rf"uncertainty_in must be finite; got {bad} at row 0"):
        ood_auroc([bad], [0.1])
    with pytest.raises(ValueError, match=rf"uncertainty_out must be finite; got {bad} at row 0"):
        ood_auroc([0.1], [bad])


@pytest.mark.parametrize("bad", [[], [[0.1], [0.2]], 0.1])
def test_uncertainty_must_be_one_number_a_row(bad):
    match = r"must have shape \(n_samples,\) .*got shape .*predict_uncertainty"
    with pytest.raises(ValueError, match="uncertainty " + match):
        error_detection_auroc([0, 1], [0, 0], bad)
    with pytest.raises(ValueError, match="uncertainty_in " + match):
        ood_auroc(bad, [0.1])
    with pytest.raises(ValueError, match="uncertainty_out " + match):
        ood_auroc([0.1], bad)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "match"),
    [
        ([0, 1, 1], [0, 1], "inconsistent numbers of samples"),
        ([0, 1], [0], "inconsistent numbers of samples"),
        ([[0, 1], [1, 0]], [0, 1], "should be a 1d array"),
        ([0, 1], [[0, 1], [1, 0]], "should be a 1d array"),
        ([0.0, np.nan], [0, 1], "contains NaN"),
        ([0, 1], ["0", "1"], "Mix of label input types"),
        ([], [], "inconsistent numbers of samples"),
    ],
)
def test_bad_labels(y_true, y_pred, match):
    with pytest.raises(ValueError, match=match):
        error_detection_auroc(y_true, y_pred, [0.1, 0.2])
