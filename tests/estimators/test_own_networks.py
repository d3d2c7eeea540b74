"""Networks of one's own, over all estimators."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from ._settings import ENSEMBLES, ESTIMATORS, X, small, y

pytestmark = pytest.mark.parametrize("cls", ESTIMATORS)


class OwnNet(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, width),
            torch.nn.BatchNorm1d(width),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(width, 3),
        )

    def forward(self, x):
        return self.layers(x)


def own_net(n_features, n_classes):
    assert (n_features, n_classes) == (6, 3)
    return OwnNet(8)


@pytest.mark.parametrize("module", [OwnNet, OwnNet(8), own_net], ids=["class", "instance", "call"])
def test_own_modules(cls, module):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    est = small(cls, module=module).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before)
    expected = est.predict_proba(X)
    torch.manual_seed(8)
    again = small(cls, module=module).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    if cls in ENSEMBLES:
        members = est.predict_proba_members(X)
        assert np.abs(members[0] - members[1]).max() > 1e-6


def test_own_module_parameters(cls):
    est = small(cls, module=OwnNet, module__width=5).fit(X, y)
    assert any(parameter.shape[-1] == 5 for parameter in est.module_.parameters())


def test_images_for_a_network_of_ones_own(cls):
    def conv(n_channels, n_classes):
        return torch.nn.Sequential(
            torch.nn.Conv2d(n_channels, 4, 2), torch.nn.Flatten(), torch.nn.Linear(8, n_classes)
        )

    images = np.random.default_rng(0).normal(size=(60, 2, 3, 2))
    est = small(cls, module=conv).fit(images, np.arange(60) % 3)
    assert est.predict_proba(images).shape == (60, 3)


def test_parameters_reach_a_callable(cls):
    def make(n_features, n_classes, width=2):
        return torch.nn.Sequential(
            torch.nn.Linear(n_features, width), torch.nn.Linear(width, n_classes)
        )

    est = small(cls, module=make, module__width=7).fit(X, y)
    assert any(parameter.shape[-1] == 7 for parameter in est.module_.parameters())
    with pytest.raises(ValueError, match="cannot be built.*'depth'"):
        small(cls, module=make, module__depth=7).fit(X, y)
    with pytest.raises(ValueError, match="module__width cannot change .* instance"):
        small(cls, module=OwnNet(), module__width=7).fit(X, y)


def two_layers(n_features, n_classes):
    return torch.nn.Sequential(torch.nn.Linear(n_features, 8), torch.nn.Linear(8, n_classes))


def test_a_callable_that_always_gives_the_same_object(cls):
    net = two_layers(6, 3)
    before = net[0].weight.detach().clone()
    first = small(cls, module=lambda n_features, n_classes: net).fit(X, y)
    expected = first.predict_proba(X)
    small(cls, module=lambda n_features, n_classes: net, random_state=1).fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), expected)
    assert torch.equal(net[0].weight, before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d, k: torch.nn.Linear(d, k + 1), r"\(2, 3\); got \(2, 4\)"),
        (lambda d, k: torch.nn.Linear(d, 1), r"\(2, 3\); got \(2, 1\)"),
        (lambda d, k: torch.nn.Linear(d + 1, k), "cannot take rows of shape"),
        (lambda d, k: torch.nn.LSTM(d, k), "got tuple"),
        (lambda d, k: torch.nn.Linear(d, k).requires_grad_(False), "no trainable parameters"),
    ],
)
def test_networks_that_do_not_fit(cls, make, message):
    with pytest.raises(ValueError, match=message):
        small(cls, module=make).fit(X, y)


def test_lazy_layers(cls):
    def lazy(n_features, n_classes):
        return torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.LazyLinear(n_classes))

    est = small(cls, module=lazy).fit(X, y)
    assert est.predict_proba(X).shape == (120, 3)


def test_rows_of_another_shape_than_in_fit(cls):
    est = small(cls, module=two_layers).fit(X, y)
    with pytest.raises(ValueError, match="Flatten"):
        est.predict_proba(X[:18].reshape(3, 6, 6))


def test_a_last_batch_of_one_row_under_batch_normalisation(cls):
    est = small(cls, module=OwnNet, batch_size=32).fit(X[:65], y[:65])
    np.testing.assert_allclose(est.predict_proba(X[:1]), est.predict_proba(X)[:1], atol=1e-5)
    with pytest.raises(ValueError, match="needs 2 rows a batch; got batch_size=1"):
        small(cls, module=OwnNet, batch_size=1).fit(X, y)


def test_a_network_that_draws_at_prediction_is_deterministic(cls):
    class Noise(torch.nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)

    def make(d, k):
        return torch.nn.Sequential(torch.nn.Linear(d, 8), Noise(), torch.nn.Linear(8, k))

    est = small(cls, module=make).fit(X, y)
    before = torch.get_rng_state()
    np.testing.assert_array_equal(est.predict_proba(X), est.predict_proba(X))
    assert torch.equal(torch.get_rng_state(), before)


def small_conv(n_channels, n_classes):
    return torch.nn.Sequential(
        torch.nn.Conv2d(n_channels, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32, n_classes),
    )


def test_a_small_convolutional_network_learns_digits(cls):
    digits = load_digits()
    images = digits.images[:600, None] / 16
    est = small(cls, module=small_conv, max_epochs=25, lr=0.01, batch_size=64)
    est.fit(images, digits.target[:600])
    new, labels = digits.images[600:900, None] / 16, digits.target[600:900]
    assert est.score(new, labels) > 0.8
    proba, uncertainty = est.predict_with_uncertainty(new)
    np.testing.assert_allclose(est.predict_proba(new[3:4]), proba[3:4], atol=1e-5)
    assert np.isfinite(uncertainty).all()


class Residual(torch.nn.Module):
    """Hand-written: the last layer is registered first, and a branch goes around another."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(8, 3)
        self.first = torch.nn.Linear(6, 8)
        self.inner = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8))

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(hidden + self.inner(hidden))


def test_a_hand_written_network_with_a_residual_branch(cls):
    est = small(cls, module=Residual, max_epochs=60, lr=0.01).fit(X, y)
    assert est.score(X, y) > 0.6
    np.testing.assert_allclose(est.predict_proba(X[:1]), est.predict_proba(X)[:1], atol=1e-6)


class Functional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(6, 8)
        self.out = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.out(torch.nn.functional.linear(x, self.hidden.weight, self.hidden.bias).relu())


def test_functional_layers_work_or_are_named(cls):
    est = small(cls, module=Functional)
    if cls.__name__ == "DAREEnsembleClassifier":
        assert est.fit(X, y).predict_proba(X).shape == (120, 3)
    else:
        with pytest.raises(ValueError, match=r"'hidden' \(Linear\) is never called"):
            est.fit(X, y)
