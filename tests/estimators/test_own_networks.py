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
    if cls.__name__ not in ("BatchEnsembleClassifier", "MasksemblesClassifier"):
        assert est.fit(X, y).predict_proba(X).shape == (120, 3)
    else:
        with pytest.raises(ValueError, match=r"'hidden' \(Linear\) is never called"):
            est.fit(X, y)


def repeated(n_features, n_classes):
    """One activation and one layer, each called twice."""
    act, layer = torch.nn.ReLU(), torch.nn.Linear(16, 16)
    first, last = torch.nn.Linear(n_features, 16), torch.nn.Linear(16, n_classes)
    return torch.nn.Sequential(first, act, layer, act, layer, last)


def test_a_layer_that_comes_twice_is_called_twice_at_prediction(cls):
    est = small(cls, module=repeated).fit(X, y)
    with torch.no_grad():
        logits = est.module_(torch.as_tensor(X, dtype=torch.float32)).double()
    np.testing.assert_allclose(est.predict_proba(X), logits.softmax(-1).mean(0), atol=1e-6)


def frozen(n_features, n_classes):
    net = torch.nn.Sequential(
        torch.nn.Linear(n_features, 8), torch.nn.ReLU(), torch.nn.Linear(8, n_classes)
    )
    torch.nn.init.constant_(net[0].weight, 0.5)
    torch.nn.init.constant_(net[0].bias, 0.25)
    net[0].requires_grad_(False)
    return net


def test_frozen_layers_stay_as_they_are(cls):
    est = small(cls, module=frozen, warm_start=True).fit(X, y).fit(X, y)
    found = [p for p in est.module_.parameters() if p.shape[-2:] == (8, 6)]
    assert found
    for weight in found:
        assert (weight == 0.5).all()
    bias = [p for p in est.module_.parameters() if p.shape[-1] == 8 and p.dim() <= 2]
    assert any((p == 0.25).all() for p in bias)


class Attention(torch.nn.Module):
    """Its out_proj is a linear layer that is never called as one; nor is `spare`."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(6, 1, batch_first=True)
        self.spare = torch.nn.Linear(6, 2)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x):
        x = x[:, None]
        return self.head(self.attention(x, x, x)[0][:, 0])


class Clamped(torch.nn.Module):
    """What follows the head changes nothing, on most rows."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.head(x).clamp(-100, 100)


class Cast(torch.nn.Module):
    """Its forward looks at the last layer."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(6, 6)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.hidden(x).to(self.head.weight.dtype))


def test_what_is_not_the_last_layer_may_be_anything(cls):
    est = small(cls, module=Attention)
    if cls.__name__ in ("BatchEnsembleClassifier", "MasksemblesClassifier"):
        with pytest.raises(ValueError, match="has weights that cannot be converted"):
            est.fit(X, y)
    else:
        assert est.fit(X, y).predict_uncertainty(X).shape == (120,)


def test_a_last_layer_that_cannot_be_split_off_is_told(cls):
    if cls.__name__ in ("HetNetClassifier", "DEUPClassifier"):
        with pytest.raises(ValueError, match=r"Linear\(in_features=6, .* is not. Leave out"):
            small(cls, module=Clamped).fit(X, y)
        with pytest.raises(ValueError, match=r"split off: its forward .*AttributeError"):
            small(cls, module=Cast).fit(X, y)
    elif cls.__name__ != "MasksemblesClassifier":  # it needs a hidden layer
        small(cls, module=Clamped).fit(X, y)


class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(6, 16)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x):
        x.sub_(0.5)
        return self.head(self.hidden(torch.tanh(x)).relu())


def in_place(n_features, n_classes):
    return torch.nn.Sequential(
        torch.nn.SiLU(inplace=True),
        torch.nn.Linear(n_features, 16),
        torch.nn.SiLU(inplace=True),
        torch.nn.Linear(16, n_classes),
    )


def not_in_place(n_features, n_classes):
    return torch.nn.Sequential(
        torch.nn.SiLU(),
        torch.nn.Linear(n_features, 16),
        torch.nn.SiLU(),
        torch.nn.Linear(16, n_classes),
    )


def test_a_network_may_work_in_place(cls):
    rows = X.astype(np.float32)
    before = rows.copy()
    est = small(cls, module=InPlace).fit(rows, y)
    expected = est.predict_proba(rows)
    np.testing.assert_array_equal(est.predict_proba(rows), expected)
    np.testing.assert_array_equal(rows, before)
    ours, plain = (small(cls, module=m).fit(rows, y) for m in (in_place, not_in_place))
    np.testing.assert_allclose(ours.predict_proba(rows), plain.predict_proba(rows), atol=1e-6)
    np.testing.assert_array_equal(rows, before)


class Auxiliary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(6, 16)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x):
        out = self.head(self.hidden(x).relu())
        return (out, out) if self.training else out


def test_outputs_of_another_kind_in_training_are_told(cls):
    with pytest.raises(ValueError, match="in training mode; got tuple"):
        small(cls, module=Auxiliary).fit(X, y)


def pooled(n_channels, n_classes):
    return torch.nn.Sequential(
        torch.nn.Conv2d(n_channels, 4, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, n_classes),
    )


def test_images_of_another_size_cannot_go_on(cls):
    images = np.random.default_rng(0).random((60, 1, 8, 8))
    est = small(cls, module=pooled, warm_start=True).fit(images, y[:60])
    expected = est.predict_proba(images)
    going_on = [est.fit, est.partial_fit] if hasattr(est, "partial_fit") else [est.fit]
    for fit in going_on:
        with pytest.raises(ValueError, match=r"shape \(1, 6, 6\); in fit they had \(1, 8, 8\)"):
            fit(images[:, :, :6, :6], y[:60])
    np.testing.assert_array_equal(est.predict_proba(images), expected)
