import inspect
import pickle
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import load_iris
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.inspection import permutation_importance
from sklearn.metrics import brier_score_loss, log_loss, roc_curve
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_probly import DAREEnsembleClassifier, HetNetClassifier
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


@settings(max_examples=50, deadline=None)
@given(SCORES, SCORES)
def test_ood_is_the_share_of_pairs_won(inside, outside):
    assert ood_auroc(inside, outside) == pytest.approx(share_of_pairs_won(inside, outside))
    assert ood_auroc(outside, inside) == pytest.approx(1 - ood_auroc(inside, outside))


@settings(max_examples=50, deadline=None)
@given(SCORES, SCORES)
def test_errors_are_ranked_as_foreign_rows_are(right, wrong):
    y_true = np.zeros(len(right) + len(wrong), dtype=int)
    y_pred = np.repeat([0, 1], [len(right), len(wrong)])
    scores = np.concatenate([right, wrong])
    assert error_detection_auroc(y_true, y_pred, scores) == ood_auroc(right, wrong)


@settings(max_examples=50, deadline=None)
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


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 99))
def test_calibration_is_the_gap_of_the_curve_of_scikit_learn(n, n_bins, seed):
    rng = np.random.default_rng(seed)
    proba, y_true = rng.dirichlet([1, 1, 1], n), rng.integers(3, size=n)
    confidence = proba.max(1)
    accuracy, mean = calibration_curve(proba.argmax(1) == y_true, confidence, n_bins=n_bins)
    rows, _ = np.histogram(confidence, np.linspace(0, 1, n_bins + 1))
    expected = np.average(np.abs(accuracy - mean), weights=rows[rows > 0])
    got = expected_calibration_error(y_true, proba, n_bins=n_bins, labels=[0, 1, 2])
    assert got == pytest.approx(expected, abs=1e-12)


def test_columns_are_the_sorted_labels_as_in_log_loss():
    y_true, proba = ["dog", "cat"], np.array([[0.2, 0.8], [0.9, 0.1]])  # cat, dog
    error = expected_calibration_error(y_true, proba)
    assert error == pytest.approx(0.15)  # each alone in its bin, right, 0.8 and 0.9 sure
    for labels in (["cat", "dog"], ["dog", "cat"], np.array(["dog", "cat"], dtype=object)):
        assert expected_calibration_error(y_true, proba, labels=labels) == error
        assert expected_calibration_error(y_true, proba[:, 1], labels=labels) == error
    assert log_loss(y_true, proba) == pytest.approx(-np.log([0.8, 0.9]).mean())
    assert log_loss(y_true, proba[:, 1]) == log_loss(y_true, proba)
    for y_true in ([False, True], [-1, 1], pd.Series([0.0, 1.0]), pd.Categorical(["a", "b"])):
        assert expected_calibration_error(y_true, [0.1, 0.8]) == pytest.approx(0.15)


def test_one_bin_and_one_row_a_bin():
    rng = np.random.default_rng(0)
    proba, y_true = rng.dirichlet([1, 1, 1], 50), rng.integers(3, size=50)
    confidence, right = proba.max(1), proba.argmax(1) == y_true
    for strategy in ("uniform", "quantile"):
        got = expected_calibration_error(y_true, proba, n_bins=1, strategy=strategy)
        assert got == pytest.approx(abs(right.mean() - confidence.mean()))
    for n_bins in (50, 70):
        got = expected_calibration_error(y_true, proba, n_bins=n_bins, strategy="quantile")
        assert got == pytest.approx(np.abs(right - confidence).mean())


def test_scores_that_are_those_of_scikit_learn():
    """The figures by which log loss (nats) and Brier score are known, and what changes them."""
    proba = [[0.7, 0.2, 0.1]]
    assert log_loss([0], proba, labels=[0, 1, 2]) == pytest.approx(0.356675, abs=1e-6)
    assert log_loss([2], proba, labels=[0, 1, 2]) == pytest.approx(2.302585, abs=1e-6)
    if "scale_by_half" in inspect.signature(brier_score_loss).parameters:  # scikit-learn 1.7
        for label, score in [(0, 0.14), (2, 1.34)]:
            got = brier_score_loss([label], proba, labels=[0, 1, 2], scale_by_half=False)
            assert got == pytest.approx(score)
    # Unlike the ranking of errors, calibration is not the same at another temperature.
    sharper = np.square(proba) / np.square(proba).sum()
    gaps = [expected_calibration_error([0], each, labels=[0, 1, 2]) for each in (proba, sharper)]
    assert gaps == pytest.approx([0.3, 1 - 0.49 / 0.54])


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


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 6), st.integers(0, 99))
def test_order_of_rows_of_equal_confidence_does_not_matter(n, n_bins, n_levels, seed):
    rng = np.random.default_rng(seed)
    proba, y_true = 0.5 + rng.integers(n_levels, size=n) / 20, rng.integers(2, size=n)
    order = rng.permutation(n)
    for strategy in ("uniform", "quantile"):
        kwargs = {"n_bins": n_bins, "strategy": strategy, "labels": [0, 1]}
        got = expected_calibration_error(y_true[order], proba[order], **kwargs)
        assert got == pytest.approx(expected_calibration_error(y_true, proba, **kwargs), abs=1e-12)
        constant = expected_calibration_error(y_true, np.full(n, 0.75), **kwargs)
        assert constant == pytest.approx(abs(y_true.mean() - 0.75))


def test_certain_and_right_is_calibrated_and_edges_are_in_the_lower_bin():
    assert expected_calibration_error([0, 1], np.eye(2)) == 0
    # 0.6 is the upper edge of the 9th of 15 bins: apart from 0.62, in the 10th.
    proba = np.array([[0.6, 0.4], [0.62, 0.38]])
    assert expected_calibration_error([0, 1], proba) == pytest.approx((0.4 + 0.62) / 2)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_bins": 0}, "n_bins must be an int >= 1; got 0"),
        ({"n_bins": True}, "n_bins must be an int >= 1; got True"),
        ({"y_true": [], "y_proba": np.empty((0, 2)), "labels": [0, 1]}, "at least one sample"),
        ({"y_proba": [0.5, 0.5, 1.5, 0.5]}, r"in \[0, 1\]\); got 1.5 at row 2"),
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


@pytest.mark.parametrize("scores", [[1, 2, 3, 4], [1, 1, 2, 2], [1, 2, 2, 2], [3, 1, 3, 2, 1]])
def test_rows_of_equal_uncertainty_are_in_random_order(scores):
    scores = np.array(scores)
    wrong = np.arange(len(scores)) % 3 == 0
    areas = []
    for order in map(list, permutations(range(len(scores)))):
        if (np.diff(scores[order]) >= 0).all():
            areas.append(np.mean(np.cumsum(wrong[order]) / np.arange(1, len(scores) + 1)))
    area = area_under_risk_coverage(np.zeros(len(scores)), wrong, scores)
    assert area == pytest.approx(np.mean(areas), abs=1e-12)


def test_the_best_area_nears_its_form_for_many_rows():
    """1/16 for one error in four rows, and r + (1 - r) ln(1 - r) in the limit."""
    for n, best in [(4, 1 / 16), (40_000, 0.25 + 0.75 * np.log(0.75))]:
        wrong = np.arange(n) >= 0.75 * n
        truth = np.zeros(n, dtype=int)
        area = area_under_risk_coverage(truth, wrong, np.arange(n))
        assert area == pytest.approx(best, abs=1e-4 if n > 4 else 1e-12)
        excess = excess_area_under_risk_coverage(truth, wrong, np.arange(n))
        assert excess == pytest.approx(0, abs=1e-12)
    assert best == pytest.approx(0.034238, abs=1e-6)


def test_sums_are_exact_for_many_rows():
    rng = np.random.default_rng(0)
    n = 300_000
    wrong, scores = rng.integers(2, size=n), rng.permutation(n)
    risks = np.cumsum(wrong[np.argsort(scores)]) / np.arange(1, n + 1)
    area = area_under_risk_coverage(np.zeros(n, dtype=int), wrong, scores)
    assert area == pytest.approx(risks.mean(), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(bool, st.integers(1, 30)), st.integers(1, 9), st.integers(0, 99))
def test_areas_are_between_those_of_the_best_and_the_worst_ranking(wrong, n_levels, seed):
    scores = np.random.default_rng(seed).integers(n_levels, size=len(wrong))
    truth = np.zeros(len(wrong))
    area = area_under_risk_coverage(truth, wrong, scores)
    best = area_under_risk_coverage(truth, wrong, wrong)
    worst = area_under_risk_coverage(truth, wrong, ~wrong)
    assert 0 <= best <= area + 1e-12
    assert area <= worst + 1e-12 <= 1 + 1e-12
    excess = excess_area_under_risk_coverage(truth, wrong, scores)
    assert excess == pytest.approx(area - best, abs=1e-12)
    stretched = excess_area_under_risk_coverage(truth, wrong, np.arctan(scores) * 1e-3 - 7)
    assert stretched == pytest.approx(excess, abs=1e-12)


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
        ones = area(truth, wrong, scores, np.ones(n))
        assert ones == area(truth, wrong, scores) == area(truth, wrong, scores, None)


def test_a_row_of_some_weight_is_a_block_of_equal_rows():
    """Errors 0, 1 with weights 1, 2: risks 0, 1/2, 2/3, not a mean of the risks 0, 1/2."""
    got = area_under_risk_coverage([0, 0], [0, 1], [0.1, 0.2], sample_weight=[1, 2])
    assert got == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)
    # Where an error and a hit are equally uncertain, their weights make the risk of the block.
    got = area_under_risk_coverage([0, 0], [0, 1], [0.1, 0.1], sample_weight=[1, 3])
    assert got == pytest.approx(3 / 4)
    # Ever more of each row: the area under the curve through all weights, not the rows' own sum.
    got = area_under_risk_coverage([0, 0], [0, 1], [0.1, 0.2], sample_weight=[1e9, 1e9])
    assert got == pytest.approx((1 - np.log(2)) / 2)


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


@settings(max_examples=50, deadline=None)
@given(SCORES, SCORES, st.floats(0.01, 1))
def test_false_positives_need_only_the_order(inside, outside, tpr):
    share = ood_fpr_at_tpr(inside, outside, tpr)
    assert ood_fpr_at_tpr(np.exp(inside) - 3, np.exp(outside) - 3, tpr) == share
    assert ood_fpr_at_tpr(inside[::-1], outside[::-1], tpr) == share
    assert 0 <= share <= ood_fpr_at_tpr(inside, outside, tpr=1) <= 1


@pytest.mark.parametrize("n_out", [1, 10, 19, 20, 40, 100, 101])
def test_threshold_is_the_highest_that_finds_the_share(n_out):
    """A plain loop over all thresholds, for shares that rounding would miss by a row."""
    inside, outside = np.arange(0, n_out, 0.5), np.arange(n_out)
    for found in range(1, n_out + 1):
        thresholds = [t for t in outside if np.sum(outside >= t) >= found]
        expected = np.mean(inside >= max(thresholds))
        assert ood_fpr_at_tpr(inside, outside, tpr=found / n_out) == expected


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


def test_scorers_say_their_names():
    for scorer in SCORERS.values():
        assert scorer.__name__.endswith("_scorer")
        assert scorer.__name__ in repr(scorer)


def test_weights_of_the_scorer_are_those_of_the_metric():
    X, y = load_iris(return_X_y=True)
    est = HetNetClassifier(hidden_layer_sizes=(4,), max_epochs=2, random_state=0).fit(X, y)
    weight = np.arange(150) % 4
    got = neg_area_under_risk_coverage_scorer(est, X, y, sample_weight=weight)
    arrays = y, est.predict(X), est.predict_uncertainty(X)
    assert got == -area_under_risk_coverage(*arrays, sample_weight=weight)
    assert got == pytest.approx(
        -area_under_risk_coverage(*(each.repeat(weight) for each in arrays))
    )


def flowers():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X[::2], y[::2].map({0: "a", 1: "b", 2: "c"})


def small_pipeline():
    net = DAREEnsembleClassifier(
        num_members=2, hidden_layer_sizes=(4,), max_epochs=3, random_state=0, device="cpu"
    )
    return make_pipeline(StandardScaler(), net)


def test_scorers_in_cross_validation_in_processes():
    X, y = flowers()
    scores = cross_validate(small_pipeline(), X, y, scoring=SCORERS, cv=2, n_jobs=2)
    assert all(np.isfinite(scores[f"test_{name}"]).all() for name in SCORERS)
    assert (scores["test_errors"] >= 0).all()
    assert (scores["test_risk"] <= 0).all()
    assert (scores["test_calibration"] <= 0).all()


@pytest.mark.parametrize("scorer", SCORERS.values(), ids=SCORERS)
def test_scorers_in_searches(scorer):
    X, y = flowers()
    grid = {"dareensembleclassifier__lr": [1e-4, 3e-2]}
    search = GridSearchCV(small_pipeline(), grid, scoring=scorer, cv=2, error_score="raise")
    scores = search.fit(X, y).cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert search.best_index_ == scores.argmax()
    # The search and its pipeline are scored as the classifier at the end is.
    transformed, classifier = search.best_estimator_[:-1].transform(X), search.best_estimator_[-1]
    assert search.score(X, y) == scorer(search, X, y) == scorer(classifier, transformed, y)
    importance = permutation_importance(search, X, y, scoring=scorer, n_repeats=1, random_state=0)
    assert np.isfinite(importance.importances).all()


def test_scorers_of_calibrated_classifiers():
    X, y = flowers()
    calibrated = CalibratedClassifierCV(small_pipeline(), ensemble=False, cv=2).fit(X, y)
    for scorer in SCORERS.values():
        assert -1 <= scorer(calibrated, X, y) <= 1


def test_weights_whose_sum_overflows():
    with pytest.raises(ValueError, match="sum of sample_weight overflows"):
        area_under_risk_coverage([0, 1, 1], [0, 0, 1], [0.1, 0.2, 0.3], [1e308] * 3)


def test_half_precision_probabilities_add_up():
    proba = np.random.default_rng(0).dirichlet([1, 1], 200).astype(np.float16)
    assert 0 <= expected_calibration_error([0, 1] * 100, proba) <= 1
