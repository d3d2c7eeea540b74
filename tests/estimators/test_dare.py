"""DAREEnsembleClassifier against the plain formula, member by member."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.nn import functional

from sklearn_probly import DAREEnsembleClassifier
from sklearn_probly.estimators._random import Streams
from sklearn_probly.modules.mlp import mlp

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)


# As a plain loop trains: no validation rows, no dropout, the features as they are.
PLAIN = {
    "num_members": 3,
    "hidden_layer_sizes": (32,),
    "lr": 1e-3,
    "dropout": 0.0,
    "num_embedding": None,
    "early_stopping": False,
    "random_state": 0,
}


def train_alone(member, *, epochs, batch_size, threshold, reg_weight, lr=1e-3, stop_accuracy=2.0):
    """Train one member by the published formula with autograd, on its stream of batches."""
    streams = Streams(np.random.RandomState(0).randint(2**31 - 1))
    net = mlp(64, 10, (32,), generator=streams.torch("weights", member), dtype=torch.float64)
    batches = streams.torch("members", "batches", member)
    inputs, target = torch.from_numpy(X_train), torch.from_numpy(y_train)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    eps = torch.finfo(torch.float32).eps
    for epoch in range(1, epochs + 1):  # noqa: B007
        right = 0
        for index in torch.randperm(len(inputs), generator=batches).split(batch_size):
            optimizer.zero_grad()
            logits = net(inputs[index])
            loss = functional.cross_entropy(logits, target[index])
            right += (logits.argmax(1) == target[index]).sum().item()
            if loss <= threshold:
                theta = torch.cat([p.flatten() for p in net.parameters()])
                loss = loss - reg_weight * torch.log(theta**2 + eps).mean()
            loss.backward()
            optimizer.step()
        if right / len(inputs) >= stop_accuracy:
            break
    return net, epoch


@pytest.mark.parametrize("threshold", [0.3, np.inf, -np.inf])
def test_members_are_those_trained_alone(threshold):
    params = {"threshold": threshold, "reg_weight": 0.8, "batch_size": 100}
    est = DAREEnsembleClassifier(max_epochs=8, dtype="float64", **PLAIN, **params).fit(
        X_train, y_train
    )
    got = est.predict_proba_members(X_test)
    for member in range(3):
        net, _ = train_alone(member, epochs=8, **params)
        expected = net(torch.from_numpy(X_test)).softmax(1).detach()
        np.testing.assert_allclose(got[member], expected, atol=1e-7)


def test_a_member_stops_for_itself_at_its_accuracy():
    params = {"threshold": 0.3, "reg_weight": 1.0, "batch_size": 100, "stop_accuracy": 0.955}
    est = DAREEnsembleClassifier(max_epochs=40, dtype="float64", **PLAIN, **params).fit(
        X_train, y_train
    )
    got = est.predict_proba_members(X_test)
    stops = []
    for member in range(3):
        net, stop = train_alone(member, epochs=40, **params)
        stops.append(stop)
        expected = net(torch.from_numpy(X_test)).softmax(1).detach()
        np.testing.assert_allclose(got[member], expected, atol=1e-7)
    assert len(set(stops)) > 1, "the members must stop at different epochs to show anything"
    assert est.n_iter_ == max(stops)


def test_no_regularizer_is_a_plain_ensemble_bit_for_bit():
    def proba(**params):
        est = DAREEnsembleClassifier(max_epochs=5, **PLAIN)
        return est.set_params(**params).fit(X_train, y_train).predict_proba(X_test)

    plain = proba(reg_weight=0)
    np.testing.assert_array_equal(proba(threshold=-np.inf), plain)
    assert not np.array_equal(proba(threshold=np.inf), plain)


def test_a_member_does_not_depend_on_how_many_there_are():
    def members(num_members):
        est = DAREEnsembleClassifier(max_epochs=5, **{**PLAIN, "num_members": num_members})
        return est.fit(X_train, y_train).predict_proba_members(X_test)

    np.testing.assert_allclose(members(1)[0], members(3)[0], atol=1e-5)


def test_one_member_has_no_epistemic_uncertainty():
    est = DAREEnsembleClassifier(num_members=1, max_epochs=5, random_state=0).fit(X_train, y_train)
    np.testing.assert_allclose(est.predict_uncertainty(X_test, kind="epistemic"), 0, atol=1e-9)


def test_own_network_equals_the_default_one_of_the_same_architecture():
    """The loop over members and the batched matrix products are the same training."""

    class Same(torch.nn.Module):
        def __init__(self, n_features, n_classes):
            super().__init__()
            self.net = mlp(n_features, n_classes, (16,), generator=torch.Generator().manual_seed(1))

        def forward(self, x):
            return self.net(x)

    def make(n_features, n_classes):
        return Same(n_features, n_classes)

    listed = DAREEnsembleClassifier(module=make, max_epochs=3, random_state=0)
    stacked = DAREEnsembleClassifier(hidden_layer_sizes=(16,), max_epochs=3, random_state=0)
    stacked._network = lambda fit, member: make(64, 10).net
    np.testing.assert_allclose(
        listed.fit(X_train, y_train).predict_proba(X_test),
        stacked.fit(X_train, y_train).predict_proba(X_test),
        atol=1e-5,
    )


def test_members_disagree_more_away_from_the_data_than_a_plain_ensemble():
    """Anti-regularized, directions that the data leave free grow."""
    rng = np.random.default_rng(0)
    far = rng.normal(size=(300, 64)) * 3

    def disagreement(reg_weight):
        values = [
            DAREEnsembleClassifier(
                reg_weight=reg_weight, hidden_layer_sizes=(32,), max_epochs=60, random_state=seed
            )
            .fit(X_train, y_train)
            .predict_uncertainty(far, kind="epistemic")
            .mean()
            for seed in range(3)
        ]
        return np.mean(values)

    assert disagreement(1.0) > 1.05 * disagreement(0.0)
