"""Going on from what was learned: warm_start and partial_fit, over all estimators."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from skorch.callbacks import EarlyStopping

from sklearn_probly import DEUPClassifier

from ._settings import ESTIMATORS, X, small, y

PARTIAL = [cls for cls in ESTIMATORS if cls is not DEUPClassifier]
every = pytest.mark.parametrize("cls", ESTIMATORS)
partial = pytest.mark.parametrize("cls", PARTIAL)


def main_loss(est):
    """Training loss of the network that predicts."""
    return [epoch["member_train_loss"][0] for epoch in est.history_]


# warm_start ---------------------------------------------------------------------------------


@every
def test_a_warm_start_goes_on(cls):
    est = small(cls, warm_start=True, max_epochs=30, lr=0.01).fit(X, y)
    before = est.predict_proba(X)
    module = est.module_
    est.fit(X, y)
    assert main_loss(est)[0] < main_loss(small(cls, max_epochs=1, lr=0.01).fit(X, y))[0]
    assert not np.array_equal(est.predict_proba(X), before)
    assert est.module_ is not module, "a failed fit must not have changed the former network"
    assert est.n_iter_ == 30
    cold = small(cls, max_epochs=30, lr=0.01).fit(X, y)
    np.testing.assert_array_equal(cold.predict_proba(X), before)
    np.testing.assert_array_equal(cold.fit(X, y).predict_proba(X), before)


@every
def test_a_warm_start_with_a_rate_of_next_to_nothing_stays(cls):
    est = small(cls, warm_start=True).fit(X, y)
    before = est.predict_proba(X)
    est.set_params(lr=1e-12)
    if hasattr(est, "finetune_lr"):
        est.set_params(finetune_lr=1e-12)
    np.testing.assert_allclose(est.fit(X, y).predict_proba(X), before, atol=1e-6)


@every
def test_the_first_warm_fit_is_a_cold_one(cls):
    warm = small(cls, warm_start=True).fit(X, y)
    np.testing.assert_array_equal(warm.predict_proba(X), small(cls).fit(X, y).predict_proba(X))


@every
def test_another_form_cannot_go_on(cls):
    est = small(cls, warm_start=True).fit(X, y)
    before = est.predict_proba(X)
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=\(8,\), but the fitted network has"):
        est.set_params(hidden_layer_sizes=(8,)).fit(X, y)
    est.set_params(hidden_layer_sizes=[16])
    with pytest.raises(ValueError, match="must hold the classes of the former fit"):
        est.fit(X, y + 1)
    with pytest.raises(ValueError, match="5 features"):
        est.fit(X[:, :5], y)
    np.testing.assert_array_equal(est.predict_proba(X), before)
    assert clone(est).fit(X[:, :5], y).n_features_in_ == 5


# partial_fit --------------------------------------------------------------------------------


@partial
def test_pieces_come_to_a_fit(cls):
    est = small(cls, lr=0.01)
    for _ in range(40):
        for rows in np.split(np.arange(120), 3):
            est.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert len(est.history_) == est.n_iter_ == 120
    assert est.score(X, y) > 0.75
    assert est.predict_uncertainty(X).shape == (120,)


@partial
def test_passes_are_the_epochs_of_one_optimizer(cls):
    """With all rows in one batch nothing is drawn, and passes are the epochs of a fit."""
    params = {"batch_size": 1000, "dtype": "float64", "lr": 0.01}
    if cls.__name__ == "BatchEnsembleClassifier":
        params["pretrain_epochs"] = 0
    if cls.__name__ in ("MasksemblesClassifier", "HetNetClassifier"):
        pytest.skip("masks and noise are drawn anew in each pass")
    est = small(cls, **params)
    for _ in range(5):
        est.partial_fit(X, y, classes=[0, 1, 2])
    whole = small(cls, max_epochs=5, **params).fit(X, y)
    np.testing.assert_allclose(est.predict_proba(X), whole.predict_proba(X), atol=1e-12)


@partial
def test_it_goes_on_after_fit_and_is_reproducible(cls):
    def run():
        est = small(cls, batch_size=32, dropout=0.2).fit(X, y)
        before = est.predict_proba(X)
        est.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
        assert len(est.history_) == 12
        assert not np.array_equal(est.predict_proba(X), before)
        return est.predict_proba(X)

    np.testing.assert_array_equal(run(), run())


@partial
def test_passes_are_different(cls):
    """Each pass has an order of its own: two passes are not the same one twice."""
    orders = []

    class Spy(torch.optim.SGD):
        def step(self, closure=None):
            loss = closure()
            orders.append(float(loss))
            return loss

    est = small(cls, batch_size=40, optimizer=Spy, lr=1e-12)
    est.partial_fit(X, y, classes=[0, 1, 2]).partial_fit(X, y)
    assert sorted(orders[:3]) != sorted(orders[3:])


@partial
def test_a_changed_rate_is_used(cls):
    est = small(cls).partial_fit(X, y, classes=[0, 1, 2])
    before = est.predict_proba(X)
    est.set_params(lr=1e-12).partial_fit(X, y)
    np.testing.assert_allclose(est.predict_proba(X), before, atol=1e-6)
    assert len(est.history_) == 2


@partial
def test_it_goes_on_after_pickling(cls):
    est = small(cls).partial_fit(X, y, classes=[0, 1, 2])
    back = pickle.loads(pickle.dumps(est)).partial_fit(X, y)
    assert len(back.history_) == 2
    assert np.isfinite(back.predict_proba(X)).all()


@partial
def test_what_it_refuses(cls):
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        small(cls).partial_fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        small(cls, class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])
    est = small(cls).partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    before = est.predict_proba(X)
    assert before.shape == (120, 3)
    with pytest.raises(ValueError, match=r"not among the classes \[0, 1, 2\]: \[7\]"):
        est.partial_fit(X[:1], [7])
    with pytest.raises(ValueError, match="differ from those of earlier calls"):
        est.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="5 features"):
        est.partial_fit(X[:, :5], y)
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        est.set_params(hidden_layer_sizes=(3,)).partial_fit(X, y)
    np.testing.assert_array_equal(est.predict_proba(X), before)


@partial
def test_weights_and_labels_of_any_kind(cls):
    names = np.array(["no", "maybe", "yes"])
    est = small(cls).partial_fit(X[:1], names[y[:1]], classes=names, sample_weight=np.array([2.0]))
    assert est.classes_.tolist() == ["maybe", "no", "yes"]
    assert set(est.predict(X)) <= set(names)


@partial
@pytest.mark.parametrize("how", ["fit", "pickle", "lr"])
def test_a_new_optimizer_keeps_the_seed_and_the_history(cls, how):
    est = small(cls)
    if how == "fit":
        est.fit(X, y)
    est.partial_fit(X, y, classes=[0, 1, 2])
    seed, length = est.net_.seed_, len(est.history_)
    for n in range(1, 3):
        if how == "pickle":
            est = pickle.loads(pickle.dumps(est))
        if how == "lr":
            est.set_params(lr=0.01 / n)
        est.partial_fit(X, y)
        assert est.net_.seed_ == seed
        assert len(est.history_) == length + n


@partial
def test_class_weights_count_in_pieces_of_one_class(cls):
    def weights(class_weight):
        est = small(cls, optimizer=torch.optim.SGD, lr=1e-3, class_weight=class_weight)
        for k in range(3):
            est.partial_fit(X[y == k], y[y == k], classes=[0, 1, 2])
        return est.predict_proba(X)

    assert np.abs(weights({2: 100}) - weights(None)).max() > 1e-4
    np.testing.assert_array_equal(weights({0: 1, 1: 1, 2: 1}), weights(None))


@every
def test_parameters_that_are_arrays_can_go_on(cls):
    def net(n_features, n_classes, scale):
        layer = torch.nn.Linear(n_features, 8)
        with torch.no_grad():
            layer.weight.mul_(torch.as_tensor(scale).float())
        return torch.nn.Sequential(layer, torch.nn.Linear(8, n_classes))

    est = small(cls, module=net, module__scale=np.ones(6), warm_start=True).fit(X, y)
    est.set_params(module__scale=np.ones(6)).fit(X, y)
    with pytest.raises(ValueError, match="module__scale"):
        est.set_params(module__scale=np.zeros(6)).fit(X, y)


@partial
def test_a_pass_that_fails_keeps_what_was_learned(cls):
    def normalised(n_features, n_classes):
        return torch.nn.Sequential(
            torch.nn.Linear(n_features, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, n_classes)
        )

    est = small(cls, module=normalised).fit(X, y)
    expected, length = est.predict_proba(X), len(est.history_)
    with pytest.raises(ValueError, match="Batch normalisation needs 2 rows"):
        est.partial_fit(X[:1], y[:1])
    np.testing.assert_array_equal(est.predict_proba(X), expected)
    est.set_params(callbacks=[EarlyStopping()])
    with pytest.raises(KeyError, match="valid_loss"):
        est.partial_fit(X, y)
    assert np.isfinite(est.predict_proba(X)).all()
    assert len(est.set_params(callbacks=None).partial_fit(X, y).history_) == length + 2


@partial
@pytest.mark.parametrize("classes", [[0, 1, 2, np.nan], [[0, 1], [2, 3]], [0, 1, 0.5]])
def test_classes_that_cannot_be(cls, classes):
    with pytest.raises(ValueError, match="NaN|1d array|continuous"):
        small(cls).partial_fit(X, y % 2, classes=classes)


@every
def test_it_goes_on_after_a_copy_in_inference_mode(cls):
    est = small(cls, warm_start=True).fit(X, y)
    dumped = pickle.dumps(est)
    with torch.inference_mode():
        copies = [pickle.loads(dumped), copy.deepcopy(est)]
    expected = est.fit(X, y).predict_proba(X)
    for other in copies:
        np.testing.assert_array_equal(other.fit(X, y).predict_proba(X), expected)
        if cls in PARTIAL:
            other.partial_fit(X, y)
