import itertools
import pickle

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.special import logsumexp
from sklearn.covariance import ledoit_wolf
from torch import nn
from torch.nn import functional

from sklearn_probly.modules.density import (
    Encoded,
    LogFlowDensity,
    LogGMMDensity,
    shrunk_covariance,
)
from sklearn_probly.modules.error_features import (
    VARIANCE_EPS,
    LogMCDropoutVariance,
    ScaledFeatures,
    log10_error,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def linear(n_in, n_out, weight=None):
    layer = nn.Linear(n_in, n_out, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(randn(n_out, n_in, seed=3) if weight is None else torch.tensor(weight))
        layer.bias.zero_()
    return layer.requires_grad_(False)


def encoded(hidden, head):
    return Encoded(hidden, hidden, head(hidden))


# Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proba", "y", "expected"),
    [
        ([0.7, 0.2, 0.1], 0, -0.164196),
        ([0.7, 0.2, 0.1], 2, 0.571674),
        ([0.9, 0.1], 0, np.log10(2 * 0.105361)),
        ([0.1] * 10, 3, np.log10(3.2508)),
        ([1 - 1e-9, 1e-9], 0, -5),
        ([1, 0], 0, -5),
    ],
)
def test_errors_by_hand(proba, y, expected):
    logits = torch.tensor([proba], dtype=torch.float64).log()
    logits = logits.clamp(min=-1e4)
    assert log10_error(logits, torch.tensor([y])).item() == pytest.approx(expected, abs=1e-5)


def test_errors_are_the_summed_binary_cross_entropies():
    logits, y = randn(50, 6) * 3, torch.arange(50) % 6
    one_hot = functional.one_hot(y, 6).double()
    expected = functional.binary_cross_entropy(logits.softmax(1), one_hot, reduction="none").sum(1)
    torch.testing.assert_close(log10_error(logits, y), expected.log10().clamp(min=-5))


def test_errors_of_extreme_logits_are_finite():
    logits = torch.tensor([[1e6, -1e6, 0], [0.0, 0, 0], [-1e30, 1e30, 1e30]])
    for y in range(3):
        assert log10_error(logits, torch.full((3,), y)).isfinite().all()


# Densities ----------------------------------------------------------------------------------


def by_hand():
    """The mixture of the design's table, put in place of a fitted one."""
    density = LogGMMDensity()
    head = linear(2, 2)
    density.fit(encoded(randn(40, 2), head), torch.arange(40) % 2, head, generator())
    mu = torch.tensor([[0.0, 0.0], [2.0, 1.0]]).double()
    sigma = torch.stack([torch.eye(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]])]).double()
    whitening = torch.linalg.inv(torch.linalg.cholesky(sigma))
    density.center = torch.zeros(2).double()
    density.whitening = whitening
    density.whitened_means = (whitening @ mu[..., None])[..., 0]
    log_pi = torch.tensor([0.25, 0.75]).double().log()
    density.constant = log_pi - 0.5 * torch.linalg.slogdet(sigma)[1] - np.log(2 * np.pi)
    return density, head


def test_density_by_the_table():
    density, head = by_hand()
    points = torch.tensor([[0.0, 0.0], [1.0, 1.0], [10.0, -10.0]]).double()
    got = density.transform(encoded(points, head))
    np.testing.assert_allclose(got, [-2.679981, -2.495623, -103.224164], atol=1e-6)


def test_density_integrates_to_one():
    density, head = by_hand()
    axis = torch.linspace(-12, 12, 400, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    mass = density.transform(encoded(grid, head)).exp().sum() * (axis[1] - axis[0]) ** 2
    assert mass.item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_density_is_the_mixture_of_scipy(dtype):
    hidden, y = randn(300, 5) @ randn(5, 5, seed=1) + 3, torch.arange(300) % 3
    hidden[y == 1] += 2
    head = linear(5, 3).to(dtype)
    density = LogGMMDensity()
    density.fit(encoded(hidden.to(dtype), head), y, head, generator())
    new = randn(20, 5, seed=2) * 4
    terms = []
    for k in range(3):
        rows = hidden[y == k].numpy()
        covariance, _ = ledoit_wolf(rows)
        law = scipy.stats.multivariate_normal(rows.mean(0), covariance)
        terms.append(np.log(1 / 3) + law.logpdf(new.numpy()))
    got = density.transform(encoded(new.to(dtype), head))
    tolerance = 1e-6 if dtype == torch.float64 else 1e-3
    np.testing.assert_allclose(got, logsumexp(terms, axis=0), rtol=tolerance)


@pytest.mark.parametrize(("n", "width"), [(50, 4), (10, 30), (500, 20)])
def test_shrinkage_is_that_of_ledoit_and_wolf(n, width):
    rows = randn(n, width) @ randn(width, width, seed=1)
    rows = rows - rows.mean(0)
    covariance, shrinkage = shrunk_covariance(rows)
    expected, expected_shrinkage = ledoit_wolf(rows.numpy())
    assert shrinkage == pytest.approx(expected_shrinkage, rel=1e-9)
    np.testing.assert_allclose(covariance, expected, rtol=1e-9, atol=1e-12)


def test_dead_units_rare_classes_and_far_rows():
    hidden, y = randn(60, 6).relu() + 0.1, torch.arange(60) % 3
    hidden[:, 2] = 0
    y[y == 2] = 0
    y[0] = 2  # a class of one row
    y[5] = 1
    head = linear(6, 5)  # and classes without any
    for dtype in (torch.float32, torch.float64):
        rows = encoded(hidden.to(dtype), head.to(dtype))
        density = LogGMMDensity()
        density.fit(rows, y, head, generator())
        for scale in (1.0, 1e6, 1e30):
            far = encoded(rows.hidden * scale, head)
            values = density.transform(far)
            assert values.isfinite().all()
        assert (values < density.transform(rows)).all()


def test_a_rare_class_claims_no_more_than_its_rows():
    """Two rows about their mean look like one direction and nothing else."""
    hidden, y = randn(402, 64), torch.arange(402) % 2
    hidden[400:] += 4
    y[400:] = 2
    head = linear(64, 3)
    density = LogGMMDensity()
    density.fit(encoded(hidden, head), y, head, generator())
    truth = scipy.stats.multivariate_normal(np.full(64, 4), np.eye(64))
    new = randn(50, 64, seed=7) + 4
    at_fitted, at_new = (density.transform(encoded(x, head)).mean() for x in (hidden[400:], new))
    assert abs(at_fitted - at_new) < 40
    assert abs(at_new - truth.logpdf(new).mean() - np.log(2 / 402)) < 40


@pytest.mark.parametrize("params", [{"p": 1.0}, {"p": -0.1}, {"n_draws": 1}, {"n_draws": 0}])
def test_dropout_out_of_range(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        LogMCDropoutVariance(**params)


def test_a_flow_that_diverges_is_told():
    pytest.importorskip("zuko")
    hidden, head = randn(50, 2), linear(2, 2)
    density = LogFlowDensity(max_epochs=2, lr=1e300)
    with pytest.raises(ValueError, match="flow is not finite; lower lr"):
        density.fit(encoded(hidden, head), torch.zeros(50, dtype=torch.long), head, generator())


def test_a_flow_is_a_density():
    pytest.importorskip("zuko")
    hidden, head = randn(400, 2) * 2 + 1, linear(2, 2)
    before = torch.get_rng_state()
    density = LogFlowDensity(max_epochs=30)
    density.fit(encoded(hidden, head), torch.zeros(400, dtype=torch.long), head, generator())
    assert torch.equal(torch.get_rng_state(), before)
    axis = torch.linspace(-15, 15, 150, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    mass = density.transform(encoded(grid, head)).exp().sum() * (axis[1] - axis[0]) ** 2
    assert mass.item() == pytest.approx(1, abs=0.02)
    truth = scipy.stats.multivariate_normal([1, 1], 4 * np.eye(2)).logpdf(hidden)
    assert np.corrcoef(density.transform(encoded(hidden, head)), truth)[0, 1] > 0.8
    again = LogFlowDensity(max_epochs=30)
    again.fit(encoded(hidden, head), torch.zeros(400, dtype=torch.long), head, generator())
    assert torch.equal(density.transform(encoded(grid, head)), again.transform(encoded(grid, head)))


# Dropout ------------------------------------------------------------------------------------


def fitted(p, n_draws, head):
    hidden = torch.ones(1, head.in_features, dtype=torch.float64)
    return LogMCDropoutVariance(p, n_draws).fit(
        encoded(hidden, head), torch.zeros(1, dtype=torch.long), head, generator()
    )


def test_variance_of_the_softmax_by_enumeration():
    head = linear(2, 2, [[1.0, -0.5], [0.0, 0.5]])
    z = torch.tensor([[1.0, 2.0]]).double()
    masks = [2.0 * torch.tensor(m).double() for m in itertools.product([0, 1], repeat=2)]
    proba = torch.cat([head(z * mask).softmax(1) for mask in masks])
    np.testing.assert_allclose(proba.mean(0), [0.379497, 0.620503], atol=1e-6)
    assert proba.var(0, unbiased=False).sum().item() == pytest.approx(0.232133, abs=1e-6)
    got = fitted(0.5, 40_000, head).transform(encoded(z, head))
    assert got.item() == pytest.approx(-1.460445, abs=0.02)


def test_variance_to_first_order():
    """That of a linear function of the features, by finite differences of the softmax."""
    head, z, p = linear(4, 3), randn(5, 4), 0.1
    jacobian = torch.stack(
        [torch.autograd.functional.jacobian(lambda x: head(x).softmax(-1), row) for row in z]
    )
    expected = (p / (1 - p) * (jacobian * z[:, None]).square()).sum((1, 2))
    got = fitted(p, None, head).transform(encoded(z, head))
    torch.testing.assert_close(got, (expected + VARIANCE_EPS).log())


def test_variance_of_the_logits_in_closed_form():
    """Var = (2, 1) of the design's example, seen through a softmax that is nearly linear."""
    weight = torch.tensor([[1.0, -0.5], [0.0, 0.5]]).double()
    z, p = torch.tensor([1.0, 2.0]).double(), 0.5
    np.testing.assert_allclose(p / (1 - p) * (weight.square() @ z.square()), [2, 1])
    scale = 1e-4
    head = linear(2, 2, (scale * weight).tolist())
    gap = p / (1 - p) * ((weight[0] - weight[1]).square() @ z.square()) * scale**2
    got = fitted(p, None, head).transform(encoded(z[None], head)).exp()
    assert got.item() - VARIANCE_EPS == pytest.approx(2 * gap.item() / 16, rel=1e-3)


@pytest.mark.parametrize("n_draws", [None, 20])
def test_no_dropout_and_no_features_have_no_variance(n_draws):
    head = linear(4, 3)
    nothing = torch.tensor(VARIANCE_EPS, dtype=torch.float64).log()
    none = fitted(0.0, n_draws, head).transform(encoded(randn(3, 4), head))
    torch.testing.assert_close(none, nothing.expand(3))
    zero = fitted(0.3, n_draws, head).transform(encoded(torch.zeros(2, 4).double(), head))
    torch.testing.assert_close(zero, nothing.expand(2))


@pytest.mark.parametrize("n_draws", [None, 20])
def test_dropout_is_deterministic_row_by_row_and_finite(n_draws):
    head = linear(4, 1000)
    feature, z = fitted(0.1, n_draws, head), randn(30, 4)
    whole = feature.transform(encoded(z, head))
    assert torch.equal(whole, feature.transform(encoded(z, head)))
    parts = torch.cat([feature.transform(encoded(row, head)) for row in z.split(7)])
    torch.testing.assert_close(parts, whole)
    assert feature.transform(encoded(z * 1e6, head)).isfinite().all()


# All together -------------------------------------------------------------------------------


class Norm:
    """A feature of one's own."""

    def fit(self, rows, y, head, generator):
        self.n_rows_ = len(y)
        return self

    def transform(self, rows):
        return rows.hidden.norm(dim=1)


def test_features_are_scaled_on_training_rows_and_clamped():
    head, hidden = linear(4, 3), randn(30, 4)
    norm = Norm()
    features = ScaledFeatures(("log_gmm_density", norm))
    y = torch.arange(30) % 3
    features.fit(encoded(hidden, head), y, head, generator())
    scaled = features(encoded(hidden, head))
    np.testing.assert_allclose(scaled.amin(0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.amax(0), 1, atol=1e-12)
    far = features(encoded(hidden * 1e4, head))
    assert (far[:, 0] == -10).all()
    assert (far[:, 1] == 10).all()
    assert not hasattr(norm, "n_rows_"), "objects are copied"
    back = pickle.loads(pickle.dumps(features))
    assert torch.equal(back(encoded(hidden, head)), scaled)
    other = ScaledFeatures(("log_gmm_density",))
    assert set(other.state_dict()) == {"least", "range"}


def test_a_constant_feature_is_zero():
    class Constant(Norm):
        def transform(self, rows):
            return torch.full((len(rows.hidden),), 7.0)

    head, rows = linear(4, 3), encoded(randn(9, 4), linear(4, 3))
    features = ScaledFeatures((Constant(),))
    features.fit(rows, torch.arange(9) % 3, head, generator())
    assert (features(rows) == 0).all()


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("log_density", ValueError, "'log_density' is no feature; there are 'log_gmm_density'"),
        (3, TypeError, "an object with fit and transform; got 3"),
        (Norm, TypeError, "an object with fit and transform"),
    ],
)
def test_unknown_features(spec, error, message):
    with pytest.raises(error, match=message):
        ScaledFeatures((spec,))


@pytest.mark.parametrize(
    "bad", [lambda n: torch.ones(n, 2), lambda n: torch.full((n,), torch.nan), lambda n: 1.0]
)
def test_features_that_return_nonsense(bad):
    class Bad(Norm):
        def transform(self, rows):
            return bad(len(rows.hidden))

    head = linear(4, 3)
    with pytest.raises(ValueError, match="The feature Bad must return one finite number a row"):
        ScaledFeatures((Bad(),)).fit(
            encoded(randn(9, 4), head), torch.arange(9) % 3, head, generator()
        )
