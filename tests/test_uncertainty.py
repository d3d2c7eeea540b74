import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from sklearn_probly import HetNetClassifier
from sklearn_probly.uncertainty import (
    _innermost,
    cross_val_uncertainty,
    predict_uncertainty,
)

X, Y = load_iris(return_X_y=True)


class Unsure(ClassifierMixin, BaseEstimator):
    """Says `scale` times the first feature's distance from its training mean."""

    uncertainty_kinds_ = ("total", "epistemic")
    uncertainty_units_ = {"total": "bits", "epistemic": "nats"}  # noqa: RUF012

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.mean_ = X[:, 0].mean()
        return self

    def predict_proba(self, X):
        return np.random.default_rng(0).dirichlet(np.ones(len(self.classes_)), size=len(X))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X, y):
        return self.scale

    def predict_uncertainty(self, X, kind="total"):
        check_is_fitted(self)
        if kind not in self.uncertainty_kinds_:
            raise ValueError(f"no {kind}; it has {self.uncertainty_kinds_}")
        distance = self.scale * np.abs(X[:, 0] - self.mean_)
        return distance if kind == "total" else -distance


def doubled():
    return FunctionTransformer(lambda X: 2 * X)


def by_hand(X, scale=1.0):
    return scale * np.abs(X[:, 0] - X[:, 0].mean())


def search(estimator, name="scale"):
    return GridSearchCV(estimator, {name: [1.0, 3.0, 2.0]}, cv=2)


WRAPPED = {
    "itself": (Unsure(), 1),
    "pipeline of one": (Pipeline([("last", Unsure())]), 1),
    "pipeline": (make_pipeline(doubled(), Unsure()), 2),
    "two transformers": (make_pipeline(doubled(), doubled(), Unsure()), 4),
    "passthrough": (make_pipeline("passthrough", doubled(), None, Unsure()), 2),
    "pipeline in pipeline": (make_pipeline(doubled(), make_pipeline(doubled(), Unsure())), 4),
    "grid search": (search(Unsure()), 3),
    "random search": (RandomizedSearchCV(Unsure(), {"scale": [3.0]}, n_iter=1, cv=2), 3),
    "search in pipeline": (make_pipeline(doubled(), search(Unsure())), 6),
    "pipeline in search": (search(make_pipeline(doubled(), Unsure()), "unsure__scale"), 6),
    "calibrated search": (CalibratedClassifierCV(search(Unsure()), ensemble=False, cv=2), 3),
    "calibrated pipeline": (
        CalibratedClassifierCV(make_pipeline(doubled(), Unsure()), ensemble=False, cv=2),
        2,
    ),
}


@pytest.mark.parametrize(("estimator", "scale"), WRAPPED.values(), ids=WRAPPED)
def test_reaches_the_estimator(estimator, scale):
    estimator.fit(X, Y)
    expected = by_hand(X, scale)
    np.testing.assert_allclose(predict_uncertainty(estimator, X), expected)
    np.testing.assert_allclose(predict_uncertainty(estimator, X, kind="epistemic"), -expected)
    np.testing.assert_allclose(predict_uncertainty(estimator, X[:7], "total"), expected[:7])
    assert [type(each) for each in _innermost(estimator)] == [Unsure]


def test_frozen():
    for inner, scale in [(Unsure(), 1), (make_pipeline(doubled(), Unsure()), 2)]:
        frozen = FrozenEstimator(inner.fit(X, Y))
        np.testing.assert_allclose(predict_uncertainty(frozen, X), by_hand(X, scale))
        calibrated = CalibratedClassifierCV(frozen).fit(X, Y)
        np.testing.assert_allclose(predict_uncertainty(calibrated, X), by_hand(X, scale))


def test_calibrated_is_the_mean_over_members():
    calibrated = CalibratedClassifierCV(Unsure(), cv=3).fit(X, Y)
    means = [each.estimator.mean_ for each in calibrated.calibrated_classifiers_]
    assert len(set(means)) == 3
    expected = np.mean([np.abs(X[:, 0] - mean) for mean in means], axis=0)
    np.testing.assert_allclose(predict_uncertainty(calibrated, X), expected)
    assert [each.mean_ for each in _innermost(calibrated)] == means


def test_kind_is_passed_only_when_given():
    class OneKind:
        def predict_uncertainty(self, X):
            return np.zeros(len(X))

    assert predict_uncertainty(OneKind(), X).shape == (150,)
    with pytest.raises(TypeError, match="kind"):
        predict_uncertainty(OneKind(), X, kind="total")


def test_unknown_kind_is_the_estimators_error():
    with pytest.raises(ValueError, match="no aleatoric; it has"):
        predict_uncertainty(make_pipeline(Unsure()).fit(X, Y), X, kind="aleatoric")


@pytest.mark.parametrize(
    "estimator",
    [
        Unsure(),
        LogisticRegression(),
        make_pipeline(StandardScaler(), Unsure()),
        search(Unsure()),
        CalibratedClassifierCV(Unsure()),
        FrozenEstimator(make_pipeline(Unsure())),
        FrozenEstimator(Unsure()),
    ],
    ids=repr,
)
def test_not_fitted(estimator):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        predict_uncertainty(estimator, X)


@pytest.mark.parametrize(
    ("estimator", "path"),
    [
        (LogisticRegression(max_iter=1000), "LogisticRegression"),
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            "Pipeline -> LogisticRegression",
        ),
        (
            GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {}, cv=2),
            "GridSearchCV -> Pipeline -> LogisticRegression",
        ),
        (
            CalibratedClassifierCV(LogisticRegression(max_iter=1000), cv=2),
            "CalibratedClassifierCV -> LogisticRegression",
        ),
        (make_pipeline(StandardScaler(), "passthrough"), "Pipeline -> 'passthrough'"),
        (GridSearchCV(Unsure(), {}, cv=2, refit=False), "GridSearchCV"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_type_error_names_what_was_found(estimator, path):
    with pytest.raises(TypeError, match=rf"got {path}\. Pass a fitted estimator"):
        predict_uncertainty(estimator.fit(X, Y), X)


@pytest.mark.parametrize(("thing", "name"), [(None, "NoneType"), (3, "int"), ("est", "'est'")])
def test_type_error_for_no_estimator_at_all(thing, name):
    with pytest.raises(TypeError, match=rf"got {name}\. Pass a fitted"):
        predict_uncertainty(thing, X)


def test_imports_no_torch():
    names = "measures, metrics, uncertainty, inspection, datasets"
    code = (
        "import sys, types, importlib.util, pathlib\n"
        "package = types.ModuleType('sklearn_probly')\n"
        "folder = importlib.util.find_spec('sklearn_probly').submodule_search_locations\n"
        "package.__path__ = list(folder)\n"
        "sys.modules['sklearn_probly'] = package\n"
        f"from sklearn_probly import {names}\n"
        "loaded = {'torch', 'torchvision', 'matplotlib'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Out of fold --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("cv", [None, 3, KFold(4, shuffle=True, random_state=0)])
def test_out_of_fold_is_a_plain_loop(cv, n_jobs):
    pipeline = make_pipeline(StandardScaler(), Unsure(scale=2.0))
    got = cross_val_uncertainty(pipeline, X, Y, cv=cv, n_jobs=n_jobs)
    folds = cv if isinstance(cv, KFold) else StratifiedKFold(cv or 5)
    expected = np.full(len(X), np.nan)
    for train, test in folds.split(X, Y):
        fitted = clone(pipeline).fit(X[train], Y[train])
        expected[test] = predict_uncertainty(fitted, X[test])
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.float64
    with pytest.raises(NotFittedError):
        check_is_fitted(pipeline)


def test_out_of_fold_takes_frames_names_kinds_and_lists_of_folds():
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(len(X)) + 1000)
    labels = pd.Series(np.array(["x", "y", "z"])[Y], index=frame.index)
    folds = list(StratifiedKFold(3).split(X, Y))
    got = cross_val_uncertainty(Unsure(), frame.to_numpy(), labels, kind="epistemic", cv=folds)
    expected = cross_val_uncertainty(Unsure(), X, Y, kind="epistemic", cv=3)
    np.testing.assert_array_equal(got, expected)
    ours = HetNetClassifier(hidden_layer_sizes=(4,), max_epochs=2, random_state=0)
    got = cross_val_uncertainty(make_pipeline(StandardScaler(), ours), frame, labels, cv=2)
    assert np.isfinite(got).all()


def test_out_of_fold_is_out_of_fold():
    """A model that is unsure of just those rows which it was not trained on is unsure of all."""

    class Memory(Unsure):
        def fit(self, X, y):
            self.seen_ = {row.tobytes() for row in X}
            return super().fit(X, y)

        def predict_uncertainty(self, X, kind="total"):
            return np.array([row.tobytes() not in self.seen_ for row in X], dtype=float)

    rows = np.arange(60.0).reshape(30, 2)
    assert cross_val_uncertainty(Memory(), rows, np.arange(30) % 2).min() == 1
    assert predict_uncertainty(Memory().fit(rows, np.arange(30) % 2), rows).max() == 0


def test_out_of_fold_takes_groups_as_folds_searches_and_shapes():
    groups = np.arange(len(X)) % 7
    folds = list(GroupKFold(3).split(X, Y, groups))
    got = cross_val_uncertainty(search(Unsure()), X, Y.tolist(), cv=folds)
    for train, test in folds:
        means = X[train, 0].mean()
        np.testing.assert_allclose(got[test], 3 * np.abs(X[test, 0] - means))
    images = X[:, :, np.newaxis, np.newaxis]
    flat = make_pipeline(FunctionTransformer(lambda X: X.reshape(len(X), -1)), Unsure())
    np.testing.assert_array_equal(
        cross_val_uncertainty(flat, images, Y), cross_val_uncertainty(Unsure(), X, Y)
    )


def test_out_of_fold_leaves_a_fitted_estimator_alone():
    fitted = Unsure().fit(X[:20], Y[:20])
    before = fitted.mean_
    cross_val_uncertainty(fitted, X, Y)
    assert fitted.mean_ == before


EVERY = np.arange(len(X))


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (ShuffleSplit(1, test_size=15, random_state=0), "135 are in none, 0 in several, and 0 of"),
        ([], "150 are in none, 0 in several"),
        ([(EVERY, EVERY), (EVERY, EVERY[:4])], "0 are in none, 4 in several, and 0 of"),
        ([(EVERY, np.arange(151))], "0 are in none, 0 in several, and 1 of its row numbers"),
        ([(EVERY, EVERY - 150)], "150 are in none, 0 in several, and 150 of its row numbers"),
    ],
)
def test_out_of_fold_refuses_what_is_no_partition(cv, message):
    with pytest.raises(ValueError, match=f"Each of the 150 rows .* {message}.*Use a partition"):
        cross_val_uncertainty(Unsure(), X, Y, cv=cv)


def test_bad_input_of_out_of_fold():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        cross_val_uncertainty(Unsure(), X, Y[:5])
    with pytest.raises(ValueError, match="no aleatoric; it has"):
        cross_val_uncertainty(Unsure(), X, Y, kind="aleatoric")
    with pytest.raises(TypeError, match="No estimator with predict_uncertainty"):
        cross_val_uncertainty(LogisticRegression(), X, Y)
