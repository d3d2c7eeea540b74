"""DEUPClassifier: what is its own."""

import numpy as np
import pytest
import torch

from sklearn_probly import DAREEnsembleClassifier, DEUPClassifier
from sklearn_probly.estimators._data import stratified_folds
from sklearn_probly.modules.density import LogGMMDensity
from sklearn_probly.modules.error_features import LogMCDropoutVariance

from ._settings import X, small, y


def test_the_classifier_is_a_plain_network():
    est = small(DEUPClassifier).fit(X, y)
    plain = small(DAREEnsembleClassifier, num_members=1, reg_weight=0.0).fit(X, y)
    np.testing.assert_allclose(est.predict_proba(X), plain.predict_proba(X), atol=1e-6)


def test_uncertainty_is_a_positive_loss_in_nats():
    est = small(DEUPClassifier).fit(X, y)
    assert est.uncertainty_kinds_ == ("epistemic",)
    assert est.uncertainty_units_ == {"epistemic": "nats"}
    for scale in (1, 1e6):
        uncertainty = est.predict_uncertainty(X * scale)
        assert np.isfinite(uncertainty).all()
        assert (uncertainty > 0).all()
    with pytest.raises(ValueError, match="measures.entropy"):
        est.predict_uncertainty(X, kind="total")


def test_folds_are_trained_as_if_alone():
    """One batch of members with row weights of 0 is the same training as a fit of each fold."""
    seen = []

    class Spy(LogGMMDensity):
        def fit(self, rows, y, head, generator):
            seen.append((len(y), rows.hidden.clone(), head.weight.clone()))
            return super().fit(rows, y, head, generator)

    est = small(
        DEUPClassifier,
        features=(Spy(),),
        num_embedding=None,
        error_cv=3,
        dtype="float64",
        batch_size=1000,
    )
    Spy.__deepcopy__ = lambda self, memo: self
    est.fit(X, y)
    assert [n for n, _, _ in seen] == [120, 80, 80, 80]
    streams = est.net_.seed_
    from sklearn_probly.estimators._random import Streams
    from sklearn_probly.modules.mlp import mlp

    streams = Streams(streams)
    folds = stratified_folds(y, 3, streams.numpy("folds"))
    for fold in range(3):
        net = mlp(6, 3, (16,), generator=streams.torch("weights", fold + 1), dtype=torch.float64)
        kept = torch.from_numpy(folds != fold)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(10):
            optimizer.zero_grad()
            logits = net(torch.from_numpy(X)[kept])
            torch.nn.functional.cross_entropy(logits, torch.from_numpy(y)[kept]).backward()
            optimizer.step()
        torch.testing.assert_close(seen[fold + 1][2], net[2].weight, atol=1e-9, rtol=1e-9)


def test_errors_are_those_of_rows_not_trained_on():
    """A network that knows its rows by heart has errors only on others: labels are noise here."""
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(200, 20)), rng.integers(2, size=200)
    params = {
        "max_epochs": 300,
        "hidden_layer_sizes": (64,),
        "ood_augmentation": None,
        "num_embedding": None,
    }
    held_out = small(DEUPClassifier, error_cv=5, error_max_epochs=20, **params).fit(points, labels)
    in_sample = small(DEUPClassifier, error_cv=None, error_max_epochs=20, **params)
    in_sample.fit(points, labels)
    assert held_out.predict_uncertainty(points).mean() > 0.3
    assert in_sample.predict_uncertainty(points).mean() < 0.1


def test_the_halves_of_the_line_are_in_order():
    """y is a coin on the left and nearly certain on the right: errors of a constant 0.745."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(2000, 1))
    labels = (rng.random(2000) < np.where(points[:, 0] < 0.5, 0.5, 0.99)).astype(int)

    class Position:
        def fit(self, rows, y, head, generator):
            return self

        def transform(self, rows):
            return rows.X[:, 0]

    est = DEUPClassifier(
        features=(Position(),), max_epochs=20, hidden_layer_sizes=(16,), random_state=0
    ).fit(points, labels)
    new = np.linspace(0.05, 0.95, 50)[:, None]
    uncertainty = est.predict_uncertainty(new)
    assert uncertainty[new[:, 0] < 0.4].min() > uncertainty[new[:, 0] > 0.6].max()


def test_folds_of_equal_size_in_each_class():
    labels = np.array([0] * 13 + [1] * 7 + [2] * 1)
    folds = stratified_folds(labels, 4, np.random.default_rng(0))
    for members in (folds, folds[labels == 0], folds[labels == 1]):
        counts = np.bincount(members, minlength=4)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("features", ["log_gmm_density", (), [], ("nothing",)])
def test_bad_features(features):
    with pytest.raises(ValueError, match="feature"):
        small(DEUPClassifier, features=features).fit(X, y)


def test_no_partial_fit():
    assert not hasattr(DEUPClassifier, "partial_fit")
    assert not hasattr(DEUPClassifier(), "partial_fit")


def test_all_features_together():
    pytest.importorskip("zuko")
    names = ("log_gmm_density", "log_mc_dropout_variance", "log_flow_density")
    est = small(DEUPClassifier, features=names).fit(X, y)
    again = small(DEUPClassifier, features=names).fit(X, y)
    np.testing.assert_array_equal(est.predict_uncertainty(X), again.predict_uncertainty(X))


def test_foreign_rows_teach_what_is_foreign():
    est = small(DEUPClassifier, max_epochs=60, error_max_epochs=20).fit(X, y)
    far = np.random.default_rng(0).normal(size=(200, 6)) * 20
    assert est.predict_uncertainty(far).mean() > est.predict_uncertainty(X).mean()


def test_an_error_network_that_diverges_names_its_own_rate():
    with pytest.raises(ValueError, match="not finite after epoch .*lower error_lr"):
        small(DEUPClassifier, error_lr=1e9).fit(X, y)


class OwnFeature:
    """A feature whose values the test gives."""

    def __init__(self, values):
        self.values = values

    def fit(self, rows, y, head, generator):
        return self

    def transform(self, rows):
        return self.values(rows)


def test_a_feature_of_ones_own_may_draw_from_the_global_generator():
    before = torch.get_rng_state()
    feature = OwnFeature(lambda rows: torch.rand(len(rows.X)))
    est = small(DEUPClassifier, features=[feature, "log_gmm_density"])
    expected = est.fit(X, y).predict_uncertainty(X)
    np.testing.assert_array_equal(est.predict_uncertainty(X), expected)
    torch.manual_seed(3)
    np.testing.assert_array_equal(est.fit(X, y).predict_uncertainty(X), expected)
    torch.set_rng_state(before)


@pytest.mark.parametrize(
    "values",
    [
        lambda rows: np.arange(len(rows.X))[::-1],
        lambda rows: rows.X[:, 0].numpy().astype(np.longdouble),
        lambda rows: rows.X[:, 0].tolist(),
        lambda rows: rows.X[:, 0].numpy().astype(object),
    ],
)
def test_features_may_be_any_numbers(values):
    est = small(DEUPClassifier, features=[OwnFeature(values)]).fit(X, y)
    assert np.isfinite(est.predict_uncertainty(X)).all()


@pytest.mark.parametrize(
    "values",
    [
        lambda rows: None,
        lambda rows: rows.X,
        lambda rows: rows.X[:, 0] * torch.nan,
        lambda rows: rows.X[:, 0] * 1j,
        lambda rows: ["a"] * len(rows.X),
    ],
)
def test_features_that_are_no_numbers_are_told(values):
    with pytest.raises(ValueError, match="OwnFeature must return one finite number a row"):
        small(DEUPClassifier, features=[OwnFeature(values)]).fit(X, y)


def test_far_rows_have_finite_errors():
    est = small(DEUPClassifier).fit(X, y)
    with torch.no_grad():
        for parameter in est.module_.error_head.parameters():
            parameter.mul_(1e4)
    assert np.isfinite(est.predict_uncertainty(X * 100)).all()


def test_the_default_dtype_of_torch_means_nothing():
    features = ["log_gmm_density", LogMCDropoutVariance(n_draws=4)]
    expected = small(DEUPClassifier, features=features).fit(X, y).predict_uncertainty(X)
    torch.set_default_dtype(torch.float64)
    try:
        got = small(DEUPClassifier, features=features).fit(X, y).predict_uncertainty(X)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(got, expected)
