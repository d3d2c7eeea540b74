import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from torch import nn

from sklearn_probly.modules.members import MemberList, StackedLinear, StackedMembers, moments
from sklearn_probly.modules.mlp import mlp


def networks(n_members=3, dtype=torch.float64):
    return [
        mlp(5, 4, (8, 6), generator=torch.Generator().manual_seed(seed), dtype=dtype)
        for seed in range(n_members)
    ]


FORMS = [StackedMembers.from_members, lambda nets: MemberList(nets, input_dim=2)]


@pytest.mark.parametrize("own_rows", [False, True])
@pytest.mark.parametrize("make", FORMS)
def test_members_are_the_plain_networks(make, own_rows):
    nets = networks()
    x = torch.randn(3, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x if own_rows else x[0]
    expected = torch.stack([net(x[m] if own_rows else x) for m, net in enumerate(nets)])
    torch.testing.assert_close(make(nets)(x), expected, rtol=1e-12, atol=1e-12)


def test_a_member_comes_back_out():
    nets = networks()
    x = torch.randn(7, 5, dtype=torch.float64)
    stacked = StackedMembers.from_members(nets)
    for index, net in enumerate(nets):
        torch.testing.assert_close(stacked.member(index)(x), net(x), rtol=0, atol=0)


@pytest.mark.parametrize("bias", [True, False])
def test_large_networks_are_the_same(bias):
    nets = [
        nn.Sequential(
            nn.Linear(300, 200, bias=bias, dtype=torch.float64),
            nn.ReLU(),
            nn.Linear(200, 3, dtype=torch.float64),
        )
        for _ in range(2)
    ]
    stacked = StackedMembers.from_members(nets)
    x = torch.randn(2, 100, 300, dtype=torch.float64)
    batched = stacked(x)
    with torch.no_grad():
        torch.testing.assert_close(stacked(x), batched, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(stacked(x[0])[1], nets[1](x[0]), rtol=1e-12, atol=1e-12)


def test_layers_without_bias():
    layers = [nn.Linear(3, 2, bias=False) for _ in range(2)]
    stacked = StackedLinear.from_linear(layers)
    x = torch.randn(4, 3)
    torch.testing.assert_close(stacked(x), torch.stack([layer(x) for layer in layers]))
    torch.testing.assert_close(stacked.to_linear(1)(x), layers[1](x))
    assert "n_members=2, in_features=3, out_features=2" in repr(stacked)


@pytest.mark.parametrize("make", FORMS)
def test_states_are_views_of_each_member(make):
    members = make(networks())
    n_parameters = sum(p.numel() for p in networks()[0].parameters())
    before = members(torch.ones(1, 5, dtype=torch.float64)).detach().clone()
    states = members.member_states()
    assert [sum(t.numel() for t in state) for state in states] == [n_parameters] * 3
    for tensor in states[1]:
        tensor.zero_()
    after = members(torch.ones(1, 5, dtype=torch.float64))
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]])
    assert (after[1] == 0).all()


def test_moments_agree_with_scipy():
    logits = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0)) * 5
    proba = scipy.special.softmax(logits.double().numpy(), axis=-1)
    got = moments(logits)
    np.testing.assert_allclose(got.mean_proba, proba.mean(0), rtol=1e-12)
    entropy = scipy.stats.entropy(proba, base=2, axis=-1).mean(0)
    np.testing.assert_allclose(got.aleatoric, entropy, rtol=1e-10)
    total = scipy.stats.entropy(proba.mean(0), base=2, axis=-1)
    np.testing.assert_allclose(got.total, total, rtol=1e-10)
    np.testing.assert_allclose(got.epistemic, total - entropy, atol=1e-12)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([[0.9, 0.1], [0.1, 0.9]], [1, 0.468996, 0.531004]),
        ([[0.8, 0.2], [0.6, 0.4]], [0.881291, 0.846439, 0.034852]),
        ([[0.5, 0.5], [0.5, 0.5]], [1, 1, 0]),
    ],
)
def test_moments_by_hand(members, expected):
    got = moments(torch.tensor(members, dtype=torch.float64).log()[:, None])
    np.testing.assert_allclose([float(part) for part in got[1:]], expected, atol=1e-6)


def test_mean_of_probabilities_not_of_logits():
    logits = torch.tensor([[[0.0, 0.0]], [[4.0, 0.0]]])
    assert moments(logits).mean_proba[0, 0] == pytest.approx(0.741, abs=5e-4)


def test_moments_are_finite_for_extreme_logits():
    logits = torch.tensor([[[3e38, -3e38, 0.0]], [[1e4, -1e4, 1e4]]])
    got = moments(logits)
    assert got.mean_proba.isfinite().all()
    np.testing.assert_allclose(got.aleatoric, [0.5])
    np.testing.assert_allclose(got.total, [scipy.stats.entropy([3, 1], base=2)])
