import math

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.integrate import quad
from torch import nn

from sklearn_probly.modules.heteroscedastic import (
    MIN_SCALE,
    HeteroscedasticNetwork,
    expected_binary_entropy,
    log_expected_sigmoid,
    normal_sequence,
)

V = [[1.0, 0.0], [0.5, 1.0], [0.0, 0.5]]
D = [0.5, 1.0, 0.2]
MU = [1.0, 0.0, -1.0]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def network(mean, factors, scale, *, temperature=1.0, num_samples=1024, seed=0):
    """A network whose logits have the same law at every row."""
    mean, scale = torch.tensor(mean).double(), torch.tensor(scale).double()
    factors = torch.tensor(factors).double().view(len(mean), -1)
    head = nn.Linear(1, len(mean), dtype=torch.float64)
    net = HeteroscedasticNetwork(
        nn.Identity(),
        head,
        num_factors=factors.shape[1],
        temperature=temperature,
        training_samples=4,
        num_samples=num_samples,
        generator=generator(seed),
    )
    with torch.no_grad():
        for layer, value in [
            (net.mean, mean),
            (net.factors, factors.flatten()),
            (net.scale, scale - MIN_SCALE + (-(MIN_SCALE - scale).expm1()).log()),
        ]:
            if layer is not None:
                layer.weight.zero_()
                layer.bias.copy_(value)
    return net.eval()


def proba(net, n=1):
    return net(torch.zeros(n, 1, dtype=torch.float64))[0].detach().exp()


@pytest.mark.parametrize(
    ("mean", "variance", "expected"),
    [
        (0, 1, 0.5),
        (1, 0, 0.73105858),
        (1, 0.25, 0.72058082),
        (1, 1, 0.69673467),
        (1, 4, 0.64772644),
        (2, 1, 0.84453748),
        (2, 4, 0.77520025),
    ],
)
def test_two_classes_by_the_table(mean, variance, expected):
    args = torch.tensor([float(mean)]), torch.tensor([float(variance)])
    positive, negative = log_expected_sigmoid(*args)
    assert positive.exp().item() == pytest.approx(expected, abs=1e-8)
    assert (positive.exp() + negative.exp()).item() == pytest.approx(1, abs=1e-9)
    mirrored, _ = log_expected_sigmoid(-args[0], args[1])
    torch.testing.assert_close(mirrored, negative)


@pytest.mark.parametrize("mean", [-30.0, -2.0, 0.1, 3.0, 12.0])
@pytest.mark.parametrize("variance", [1e-12, 0.3, 0.999, 1.001, 9.0, 25.0, 400.0])
def test_two_classes_by_quadrature(mean, variance):
    def integrand(t):
        return scipy.special.expit(mean + math.sqrt(variance) * t) * scipy.stats.norm.pdf(t)

    zero = float(np.clip(-mean / math.sqrt(variance), -8, 8))
    expected, _ = quad(integrand, -9, 9, points=[zero], limit=500, epsabs=1e-13)
    got, _ = log_expected_sigmoid(torch.tensor([mean]), torch.tensor([variance]))
    assert got.exp().item() == pytest.approx(expected, abs=1e-8)


def test_two_classes_at_the_limits():
    """Where the law is much wider than the sigmoid, it is the normal distribution function."""
    mean = torch.tensor([1e4, -1e4, 3e3, 0.0])
    got, _ = log_expected_sigmoid(mean, torch.tensor([1e8, 1e8, 1e-12, 1e30]))
    np.testing.assert_allclose(got[:2].exp(), scipy.stats.norm.cdf([1, -1]), atol=1e-7)
    np.testing.assert_allclose(got[2:].exp(), [1, 0.5], atol=1e-9)


@pytest.mark.parametrize(
    ("mean", "variance"), [(-60, 25), (-25, 40), (-12, 30), (-200, 2), (-1e4, 4), (-1e4, 0.5)]
)
def test_two_classes_in_the_far_tail(mean, variance):
    """The log itself is right, by quadrature of the integrand less its largest exponent."""

    def exponent(g):
        return -np.logaddexp(0, -g) - (g - mean) ** 2 / (2 * variance)

    grid = np.linspace(mean - 40 * variance**0.5, max(mean + variance, 0) + 40, 200_001)
    top = grid[exponent(grid).argmax()]
    width = 12 * variance**0.5
    area, _ = quad(
        lambda g: np.exp(exponent(g) - exponent(top)), top - width, top + width, limit=500
    )
    expected = exponent(top) + np.log(area / np.sqrt(2 * np.pi * variance))
    got, other = log_expected_sigmoid(torch.tensor([mean]), torch.tensor([variance]))
    assert got.item() == pytest.approx(expected, rel=1e-8)
    assert other.item() == pytest.approx(0, abs=0.1)


def test_two_classes_have_right_gradients():
    mean = torch.tensor([-3.0, 0.2, 1.0, 40.0, -1e4], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor([0.5, 0.9, 4.0, 1e6, 1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_expected_sigmoid, (mean[:3], variance[:3]))
    sum(t.sum() for t in log_expected_sigmoid(mean, variance)).backward()
    assert mean.grad.isfinite().all()
    assert variance.grad.isfinite().all()


def test_two_classes_of_the_network():
    # gap of the logits of class 0 and class 1: mean 1, variance 0.5^2 + 1.5 + 2.25
    net = network([2.0, 1.0], [[0.5], [0.0]], [math.sqrt(1.5), 1.5])
    expected, _ = log_expected_sigmoid(torch.tensor([1.0]), torch.tensor([0.25 + 1.5 + 2.25]))
    assert net.draws.numel() == 0
    assert proba(net)[0, 0].item() == pytest.approx(expected.exp().item(), abs=1e-8)
    net.train()
    assert proba(net)[0, 0].item() == pytest.approx(expected.exp().item(), abs=1e-8)


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [
        (1.0, [0.601035, 0.294835, 0.104130]),
        (0.5, [0.680486, 0.273298, 0.046217]),
        (2.0, [0.496239, 0.316744, 0.187017]),
    ],
)
def test_three_classes_by_quadrature(temperature, expected):
    net = network(MU, V, D, temperature=temperature, num_samples=4096)
    np.testing.assert_allclose(proba(net)[0], expected, atol=8e-4)


def test_few_draws_of_the_sequence_beat_many_independent_ones():
    errors = [
        proba(network(MU, V, D, num_samples=64, seed=seed))[0]
        - torch.tensor([0.601035, 0.294835, 0.104130])
        for seed in range(30)
    ]
    assert torch.stack(errors).square().mean().sqrt().item() < 5e-3  # 1,024 plain draws: 6.6e-3


@pytest.mark.parametrize(
    ("mean", "variance", "expected"),
    [
        (0, 1, 0.864807),
        (1, 0, 0.839942),
        (1, 0.25, 0.820871),
        (1, 1, 0.767771),
        (1, 4, 0.624364),
        (2, 1, 0.545200),
        (2, 4, 0.514056),
    ],
)
def test_mean_entropy_of_two_classes_by_the_table(mean, variance, expected):
    for sign in (1, -1):
        got = expected_binary_entropy(torch.tensor([sign * mean]), torch.tensor([variance]))
        assert got.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("mean", [-30.0, 0.1, 3.0])
@pytest.mark.parametrize("variance", [1e-12, 0.3, 0.999, 1.001, 25.0, 1e4])
def test_mean_entropy_of_two_classes_by_quadrature(mean, variance):
    def integrand(t):
        proba = scipy.special.expit(mean + math.sqrt(variance) * t)
        return (scipy.special.entr(proba) + scipy.special.entr(1 - proba)) * scipy.stats.norm.pdf(t)

    zero = float(np.clip(-mean / math.sqrt(variance), -8, 8))
    expected, _ = quad(integrand, -9, 9, points=[zero], limit=500, epsabs=1e-13)
    got = expected_binary_entropy(torch.tensor([mean]), torch.tensor([variance]))
    assert got.item() == pytest.approx(expected / math.log(2), abs=1e-8)


def test_mean_entropy_of_three_classes():
    """The figure is from Gauss-Hermite quadrature, 80 nodes in each of two dimensions."""
    got = network(MU, V, D, num_samples=8192).mean_entropy(torch.zeros(2, 1).double())
    np.testing.assert_allclose(got.detach(), 1.029173, atol=2e-3)


def test_mean_entropy_of_two_classes_is_that_of_many_draws():
    net = network([1.0, -0.5], [[1.0], [0.3]], [0.5, 0.8], temperature=0.7)
    draws = torch.randn(200_000, 3, generator=generator()).double()
    noise = draws[:, :1] * torch.tensor([1.0, 0.3]) + draws[:, 1:] * torch.tensor([0.5, 0.8])
    p = ((torch.tensor([1.0, -0.5]) + noise) / 0.7).softmax(1)
    expected = torch.special.entr(p).sum(1).mean() / math.log(2)
    got = net.mean_entropy(torch.zeros(1, 1).double())
    torch.testing.assert_close(got.detach()[0], expected, atol=3e-3, rtol=0)


def test_covariance_by_hand():
    net = network(MU, V, D)
    mean, factors, scale = net.distribution(torch.zeros(1, 1, dtype=torch.float64))
    covariance = factors[0] @ factors[0].T + torch.diag(scale[0] ** 2)
    expected = torch.tensor([[1.25, 0.5, 0], [0.5, 2.25, 0.5], [0, 0.5, 0.29]]).double()
    torch.testing.assert_close(covariance.detach(), expected)
    torch.testing.assert_close(mean[0].detach(), torch.tensor(MU).double())


def test_prediction_is_a_plain_loop_over_the_draws():
    net = network(MU, V, D, num_samples=50)
    total = 0
    for draw in net.draws:
        noise = torch.tensor(V).double() @ draw[:2] + torch.tensor(D).double() * draw[2:]
        total = total + (torch.tensor(MU).double() + noise).softmax(0)
    torch.testing.assert_close(proba(net)[0], total / 50, rtol=1e-9, atol=1e-9)


def test_training_loss_is_the_log_of_the_averaged_probability():
    net = network(MU, V, D).train()
    net.generator = generator(5)
    got = net(torch.zeros(2, 1, dtype=torch.float64))[0]
    draws = torch.randn(2, 5, generator=generator(5), dtype=torch.float64)
    draws = torch.cat([draws, -draws])
    noise = draws[:, :2] @ torch.tensor(V).double().T + torch.tensor(D).double() * draws[:, 2:]
    expected = (torch.tensor(MU).double() + noise).softmax(1).mean(0).log()
    torch.testing.assert_close(got, expected.expand(2, -1))


def test_invariances():
    base = proba(network(MU, V, D))
    double = network([2 * m for m in MU], [[2 * v for v in row] for row in V], [2 * d for d in D])
    double.temperature = 2.0
    torch.testing.assert_close(proba(double), base)
    shifted = network([m + 7 for m in MU], [[a + 3, b - 2] for a, b in V], D)
    torch.testing.assert_close(proba(shifted), base)
    permuted = network(MU[::-1], V[::-1], D[::-1], num_samples=4096)
    torch.testing.assert_close(proba(permuted).flip(1), base, atol=2e-3, rtol=0)
    torch.testing.assert_close(
        proba(network(MU, np.zeros((3, 0)), D, num_samples=4096)),
        proba(network(MU, np.zeros((3, 2)), D, num_samples=4096)),
        atol=1e-3,
        rtol=0,
    )


def test_limits():
    tiny = [MIN_SCALE * 1.001] * 3
    no_noise = proba(network(MU, np.zeros((3, 1)), tiny))[0]
    np.testing.assert_allclose(no_noise, [0.665241, 0.244728, 0.090031], atol=1e-5)
    flat = proba(network(MU, V, D, temperature=1e6))[0]
    np.testing.assert_allclose(flat, 1 / 3, atol=1e-5)
    drowned = proba(network(MU, np.zeros((3, 1)), [1e5] * 3, num_samples=4096))[0]
    np.testing.assert_allclose(drowned, 1 / 3, atol=5e-3)


@pytest.mark.parametrize("temperature", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("n_classes", [2, 3, 30])
def test_extreme_features_keep_losses_and_gradients_finite(temperature, n_classes):
    net = HeteroscedasticNetwork(
        nn.Identity(),
        nn.Linear(5, n_classes),
        num_factors=2,
        temperature=temperature,
        training_samples=4,
        num_samples=32,
        generator=generator(),
    )
    x = torch.randn(8, 5, generator=generator()) * 1e4
    for mode in (True, False):
        out = net.train(mode)(x)[0]
        assert out.isfinite().all()
        np.testing.assert_allclose(out.exp().sum(1).detach(), 1, atol=1e-4)
    loss = nn.functional.cross_entropy(net.train()(x)[0], torch.arange(8) % n_classes)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_the_sequence_is_normal_and_global_state_is_untouched():
    before = torch.get_rng_state()
    draws = normal_sequence(1024, 6, generator())
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_allclose(draws.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), np.eye(6), atol=0.05)
    assert torch.equal(draws, normal_sequence(1024, 6, generator()))
    wide = normal_sequence(4, 21_300, generator())
    torch.testing.assert_close(wide[:2], -wide[2:])


def test_draws_are_saved_with_the_weights():
    net = network(MU, V, D, num_samples=16, seed=1)
    other = network(MU, V, D, num_samples=16, seed=2)
    assert not torch.equal(proba(net), proba(other))
    other.load_state_dict(net.state_dict())
    assert torch.equal(proba(net), proba(other))
