import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_iris
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_curve
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_probly import HetNetClassifier
from sklearn_probly.metrics import (
    area_under_risk_coverage,
    error_detection_auroc,
    error_detection_auroc_scorer,
    excess_area_under_risk_coverage,
    expected_calibration_error,
    neg_area_under_risk_coverage_scorer,
    neg_expected_calibration_error_scorer,
    ood_auroc,
    ood_fpr_at_tpr,
)

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


# Calibration --------------------------------------------------------------------------------


def test_calibration_by_hand():
    """Two bins of two rows each: 0.5 |0.5 - 0.565| + 0.5 |1 - 0.935| = 0.065."""
    proba = np.array([[0.45, 0.55], [0.42, 0.58], [0.08, 0.92], [0.05, 0.95]])
    y_true = [0, 1, 1, 1]
    assert expected_calibration_error(y_true, proba, n_bins=10) == pytest.approx(0.065)
    assert expected_calibration_error(y_true, proba[:, 1], n_bins=10) == pytest.approx(0.065)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 60), st.integers(2, 5), st.integers(1, 20), st.integers(0, 99))
def test_calibration_is_a_plain_loop_over_bins(n, n_classes, n_bins, seed):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), n)
    y_true = rng.integers(n_classes, size=n)
    confidence, right = proba.max(1), proba.argmax(1) == y_true
    expected = 0.0
    for b in range(1, n_bins + 1):
        rows = (confidence > (b - 1) / n_bins) & (confidence <= b / n_bins)
        if rows.any():
            expected += rows.mean() * abs(right[rows].mean() - confidence[rows].mean())
    labels = range(n_classes)
    got = expected_calibration_error(y_true, proba, n_bins=n_bins, labels=labels)
    assert got == pytest.approx(expected, abs=1e-12)
    assert 0 <= got <= 1
    order = rng.permutation(n)
    again = expected_calibration_error(y_true[order], proba[order], n_bins=n_bins, labels=labels)
    assert again == pytest.approx(got, abs=1e-12)


def test_bins_of_equal_numbers():
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet([1, 1, 1], 90), rng.integers(3, size=90)
    order = np.argsort(proba.max(1))
    gaps = [
        abs((proba[rows].argmax(1) == y_true[rows]).mean() - proba[rows].max(1).mean())
        for rows in np.split(order, 9)
    ]
    got = expected_calibration_error(y_true, proba, n_bins=9, strategy="quantile")
    assert got == pytest.approx(np.mean(gaps))


def test_certain_and_right_is_calibrated_and_edges_are_in_the_lower_bin():
    assert expected_calibration_error([0, 1], np.eye(2)) == 0
    # 0.6 is the upper edge of the 9th of 15 bins: apart from 0.62, in the 10th.
    proba = np.array([[0.6, 0.4], [0.62, 0.38]])
    assert expected_calibration_error([0, 1], proba) == pytest.approx((0.4 + 0.62) / 2)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_bins": 0}, "n_bins must be an int >= 1; got 0"),
        ({"strategy": "equal"}, "strategy must be 'uniform' or 'quantile'; got 'equal'"),
        ({"labels": [0, 2]}, r"not in labels: \[1\]"),
        ({"labels": [0, 1, 2]}, "a column for each of the 3 labels"),
        ({"y_proba": np.ones((4, 2))}, "sum to 1"),
        ({"y_proba": np.full((4, 2), np.nan)}, "sum to 1"),
        ({"y_proba": np.full((3, 2), 0.5)}, "inconsistent"),
    ],
)
def test_bad_input_of_calibration(kwargs, message):
    arguments = {"y_true": [0, 1, 1, 0], "y_proba": np.full((4, 2), 0.5), **kwargs}
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(**arguments)


# Risk and coverage --------------------------------------------------------------------------


def area_by_loop(wrong, uncertainty):
    """The mean of (1/k) sum over the first k, errors of equal uncertainty averaged."""
    wrong, uncertainty = np.asarray(wrong, dtype=float), np.asarray(uncertainty)
    averaged = np.array([wrong[uncertainty == u].mean() for u in uncertainty])
    ordered = averaged[np.argsort(uncertainty, kind="stable")]
    return np.mean(np.cumsum(ordered) / np.arange(1, len(wrong) + 1))


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [([0, 0, 1, 0], 7 / 48), ([0, 0, 0, 1], 1 / 16), ([1, 0, 0, 0], 0.520833), ([0, 0, 0, 0], 0)],
)
def test_areas_by_hand(wrong, expected):
    truth, ranks = np.zeros(4, dtype=int), [1, 2, 3, 4]
    assert area_under_risk_coverage(truth, wrong, ranks) == pytest.approx(expected, abs=1e-6)
    excess = excess_area_under_risk_coverage(truth, wrong, ranks)
    best = 1 / 16 if any(wrong) else 0
    assert excess == pytest.approx(expected - best, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 99))
def test_areas_are_a_plain_loop_and_only_order_matters(n, n_levels, seed):
    rng = np.random.default_rng(seed)
    wrong, scores = rng.integers(2, size=n), rng.integers(n_levels, size=n) / n_levels
    truth = np.zeros(n, dtype=int)
    area = area_under_risk_coverage(truth, wrong, scores)
    assert area == pytest.approx(area_by_loop(wrong, scores), abs=1e-12)
    assert area_under_risk_coverage(truth, wrong, np.exp(3 * scores)) == pytest.approx(area)
    order = rng.permutation(n)
    assert area_under_risk_coverage(truth, wrong[order], scores[order]) == pytest.approx(area)
    constant = area_under_risk_coverage(truth, wrong, np.ones(n))
    assert constant == pytest.approx(wrong.mean())
    excess = excess_area_under_risk_coverage(truth, wrong, scores)
    best = area_by_loop(np.sort(wrong), np.arange(n))
    assert excess == pytest.approx(max(area - best, 0), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(0, 99))
def test_weights_are_rows(n, seed):
    rng = np.random.default_rng(seed)
    wrong, scores = rng.integers(2, size=n), rng.integers(5, size=n) / 5
    weight = rng.integers(0, 4, size=n)
    weight[0] += 1
    truth = np.zeros(n, dtype=int)
    for area in (area_under_risk_coverage, excess_area_under_risk_coverage):
        repeated = area(truth.repeat(weight), wrong.repeat(weight), scores.repeat(weight))
        assert area(truth, wrong, scores, weight) == pytest.approx(repeated, abs=1e-12)


@pytest.mark.parametrize("weight", [[1, 1], [-1, 1, 1], [np.nan, 1, 1], [0, 0, 0]])
def test_bad_weights_of_areas(weight):
    with pytest.raises(ValueError, match="sample_weight"):
        area_under_risk_coverage([0, 1, 0], [0, 1, 1], [1, 2, 3], weight)


# Foreign rows -------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.floats(0.01, 1), st.integers(0, 99))
def test_false_positives_are_those_of_the_roc_curve(n_in, n_out, tpr, seed):
    rng = np.random.default_rng(seed)
    inside, outside = rng.integers(9, size=n_in), rng.integers(3, 12, size=n_out)
    is_outside = np.r_[np.zeros(n_in), np.ones(n_out)]
    fprs, tprs, _ = roc_curve(is_outside, np.r_[inside, outside], drop_intermediate=False)
    expected = fprs[np.argmax(tprs >= tpr - 1e-9)]
    assert ood_fpr_at_tpr(inside, outside, tpr) == pytest.approx(expected)


def test_false_positives_at_the_limits():
    assert ood_fpr_at_tpr([0, 1], [2, 3]) == 0
    assert ood_fpr_at_tpr([0, 1], [-2, -3]) == 1
    assert ood_fpr_at_tpr(np.arange(100), np.arange(20) + 99, tpr=0.95) == 0
    for tpr in (0, 1.1, "x"):
        with pytest.raises(ValueError, match="tpr must be in"):
            ood_fpr_at_tpr([0], [1], tpr)


# Scorers ------------------------------------------------------------------------------------


SCORERS = {
    "errors": error_detection_auroc_scorer,
    "risk": neg_area_under_risk_coverage_scorer,
    "calibration": neg_expected_calibration_error_scorer,
}


def test_scorers_are_the_metrics():
    X, y = load_iris(return_X_y=True)
    est = HetNetClassifier(hidden_layer_sizes=(8,), max_epochs=20, random_state=0).fit(X, y)
    uncertainty = est.predict_uncertainty(X)
    expected = {
        "errors": error_detection_auroc(y, est.predict(X), uncertainty),
        "risk": -area_under_risk_coverage(y, est.predict(X), uncertainty),
        "calibration": -expected_calibration_error(y, est.predict_proba(X)),
    }
    for name, scorer in SCORERS.items():
        assert scorer(est, X, y) == expected[name]
        assert pickle.loads(pickle.dumps(scorer)) is scorer
    # A class that is absent from the rows scored keeps its column.
    assert neg_expected_calibration_error_scorer(est, X[:70], y[:70]) <= 0


def test_scorers_in_searches():
    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    net = HetNetClassifier(hidden_layer_sizes=(4,), max_epochs=5, random_state=0)
    pipeline = make_pipeline(StandardScaler(), net)
    scores = cross_validate(pipeline, X, y, scoring=SCORERS, cv=3, n_jobs=2)
    assert all(np.isfinite(scores[f"test_{name}"]).all() for name in SCORERS)
    for scorer in SCORERS.values():
        search = GridSearchCV(pipeline, {"hetnetclassifier__lr": [1e-3, 1e-2]}, scoring=scorer)
        assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()
        assert scorer(search, X, y) <= 1
    importance = permutation_importance(
        search, X, y, scoring=neg_area_under_risk_coverage_scorer, n_repeats=2, random_state=0
    )
    assert importance.importances_mean.shape == (4,)
