import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_probly.uncertainty import predict_uncertainty, uncertainty_unit

rng = np.random.default_rng(0)
X = rng.normal(3, 2, size=(30, 2))
y = np.arange(30) % 2


class Fake(ClassifierMixin, BaseEstimator):
    """Says how far a sample lies from the mean of what it was fitted to."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.mean_ = X.mean(axis=0)
        self.uncertainty_kinds_ = ("total", "ood")
        self.uncertainty_units_ = {"total": "bits", "ood": "nats"}
        return self

    def predict_proba(self, X):
        second = 1 / (1 + np.exp(self.mean_[0] - X[:, 0]))
        return np.column_stack([1 - second, second])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_uncertainty(self, X, kind="total"):
        distance = self.scale * np.linalg.norm(X - self.mean_, axis=1)
        return distance if kind == "total" else -distance


def scaled(X):
    return StandardScaler().fit_transform(X)


def fitted(X):
    return Fake().fit(X, y)


def frozen(est):
    return FrozenEstimator(est.fit(X, y))


raw = fitted(X).predict_uncertainty(X)
after_scaling = fitted(scaled(X)).predict_uncertainty(scaled(X))


@pytest.mark.parametrize(
    ("est", "expected"),
    [
        (Fake(), raw),
        (make_pipeline(Fake()), raw),
        (make_pipeline("passthrough", Fake()), raw),
        (make_pipeline(StandardScaler(), Fake()), after_scaling),
        (make_pipeline(StandardScaler(), make_pipeline("passthrough", Fake())), after_scaling),
        (GridSearchCV(Fake(), {"scale": [2.0]}, cv=2), 2 * raw),
        (RandomizedSearchCV(Fake(), {"scale": [2.0]}, n_iter=1, cv=2), 2 * raw),
        (GridSearchCV(make_pipeline(StandardScaler(), Fake()), {}, cv=2), after_scaling),
        (make_pipeline(StandardScaler(), GridSearchCV(Fake(), {}, cv=2)), after_scaling),
        (frozen(Fake()), raw),
        (frozen(make_pipeline(StandardScaler(), Fake())), after_scaling),
        (frozen(GridSearchCV(Fake(), {"scale": [2.0]}, cv=2)), 2 * raw),
        (CalibratedClassifierCV(frozen(Fake())), raw),
        (CalibratedClassifierCV(Fake(), ensemble=False), raw),
        (
            CalibratedClassifierCV(make_pipeline(StandardScaler(), Fake()), ensemble=False),
            after_scaling,
        ),
    ],
    ids=str,
)
def test_unwraps(est, expected):
    est.fit(X, y)
    assert_allclose(predict_uncertainty(est, X), expected)
    assert_allclose(predict_uncertainty(est, X, kind="ood"), -expected)
    assert uncertainty_unit(est) == "bits"
    assert uncertainty_unit(est, kind="total") == "bits"
    assert uncertainty_unit(est, kind="ood") == "nats"


def test_calibrated_gives_the_mean_over_its_members():
    est = make_pipeline(StandardScaler(), CalibratedClassifierCV(Fake(), cv=3)).fit(X, y)
    members = [each.estimator for each in est[-1].calibrated_classifiers_]
    assert len(members) == 3
    expected = sum(member.predict_uncertainty(scaled(X)) for member in members) / 3
    assert_allclose(predict_uncertainty(est, X), expected)


def test_kind_none_leaves_the_default_to_the_estimator():
    class NoKinds(Fake):
        def predict_uncertainty(self, X):
            return np.ones(len(X))

    est = make_pipeline(NoKinds()).fit(X, y)
    assert_allclose(predict_uncertainty(est, X), np.ones(len(X)))


@pytest.mark.parametrize(
    ("est", "path"),
    [
        (LogisticRegression(), "LogisticRegression"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "Pipeline -> LogisticRegression"),
        (frozen(LogisticRegression()), "FrozenEstimator -> LogisticRegression"),
        (
            GridSearchCV(make_pipeline(LogisticRegression()), {}, cv=2),
            "GridSearchCV -> Pipeline -> LogisticRegression",
        ),
        (
            CalibratedClassifierCV(LogisticRegression()),
            "CalibratedClassifierCV -> LogisticRegression",
        ),
        (make_pipeline(StandardScaler(), "passthrough"), "Pipeline -> str"),
        (GridSearchCV(Fake(), {}, cv=2, refit=False), r"GridSearchCV\. .* needs refit=True"),
    ],
    ids=str,
)
def test_names_the_path_where_nothing_is_found(est, path):
    est.fit(X, y)
    match = f"predict_uncertainty found in {path}"
    with pytest.raises(TypeError, match=match):
        predict_uncertainty(est, X)
    with pytest.raises(TypeError, match=match):
        uncertainty_unit(est)


@pytest.mark.parametrize(
    "est",
    [
        Fake(),
        LogisticRegression(),
        make_pipeline(StandardScaler(), Fake()),
        GridSearchCV(Fake(), {}),
        FrozenEstimator(Fake()),
        CalibratedClassifierCV(Fake()),
    ],
    ids=str,
)
def test_not_fitted(est):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        predict_uncertainty(est, X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        uncertainty_unit(est)


def test_not_an_estimator():
    with pytest.raises(TypeError, match="not an estimator instance"):
        predict_uncertainty("model", X)


def test_unit_of_an_unknown_kind():
    est = make_pipeline(Fake()).fit(X, y)
    with pytest.raises(ValueError, match=r"one of \['total', 'ood'\] for Fake; got 'x'"):
        uncertainty_unit(est, kind="x")
