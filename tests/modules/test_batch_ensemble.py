import copy

import pytest
import torch
from torch import nn

from sklearn_probly.modules.batch_ensemble import (
    BatchEnsemble,
    BatchEnsembleConv2d,
    BatchEnsembleLinear,
    Scaling,
)
from sklearn_probly.modules.members import StackedMembers
from sklearn_probly.modules.mlp import mlp


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def network():
    return mlp(5, 3, (7, 6), generator=generator(), dtype=torch.float64)


def ensemble(n_members=4, scaling=None, net=None):
    net = network() if net is None else net
    return BatchEnsemble(net, randn(2, 5), n_members, scaling or Scaling(), generator(1))


def plain_member(module, index):
    """Member `index` as plain layers with weights diag(s) W diag(r)."""
    layers = []
    for layer in module.network:
        if isinstance(layer, BatchEnsembleLinear):
            plain = nn.Linear(layer.weight.shape[1], len(layer.weight), dtype=torch.float64)
            plain.weight.data = (
                torch.diag(layer.s[index]) @ layer.weight @ torch.diag(layer.r[index])
            )
            plain.bias.data = layer.bias[index].detach().clone()
            layer = plain
        layers.append(layer)
    return nn.Sequential(*layers)


def test_a_layer_by_hand():
    layer = BatchEnsembleLinear(
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        None,
        torch.tensor([[2.0, -1.0]]),
        torch.tensor([[0.5, 3.0]]),
    )
    torch.testing.assert_close(layer.merged_weight()[0].T, torch.tensor([[1.0, -1], [18, -12]]))
    torch.testing.assert_close(layer(torch.ones(1, 2)), torch.tensor([[0.0, 6.0]]))


@pytest.mark.parametrize("kind", ["normal", "random_sign", "tabm"])
def test_members_are_plain_networks(kind):
    module, x = ensemble(scaling=Scaling(kind)), randn(9, 5)
    expected = torch.stack([plain_member(module, m)(x) for m in range(4)])
    torch.testing.assert_close(module(x), expected, rtol=1e-12, atol=1e-12)
    merged = module.eval().for_prediction()
    assert isinstance(merged, StackedMembers)
    torch.testing.assert_close(merged(x), expected, rtol=1e-12, atol=1e-12)


def test_gauge_and_permutation():
    module, x = ensemble(), randn(9, 5)
    expected = module(x)
    other = copy.deepcopy(module)
    with torch.no_grad():
        for layer in other.network:
            if isinstance(layer, BatchEnsembleLinear):
                layer.r[0] *= 4.0
                layer.s[0] /= 4.0
                layer.r[1] *= -1
                layer.s[1] *= -1
    torch.testing.assert_close(other(x), expected, rtol=1e-12, atol=1e-12)
    order = torch.tensor([2, 0, 3, 1])
    with torch.no_grad():
        for layer in other.network:
            if isinstance(layer, BatchEnsembleLinear):
                for parameter in (layer.r, layer.s, layer.bias):
                    parameter.copy_(parameter[order].clone())
    torch.testing.assert_close(other(x), expected[order], rtol=1e-12, atol=1e-12)


def test_gradients_by_the_formulas():
    module, x = ensemble(3), randn(9, 5)
    module(x).square().sum().backward()
    layer = module.network[0]
    weights = [
        (torch.diag(layer.s[m]) @ layer.weight @ torch.diag(layer.r[m])).detach().requires_grad_()
        for m in range(3)
    ]
    for m, weight in enumerate(weights):
        hidden = x @ weight.T + layer.bias[m].detach()
        plain_member(module, m)[1:](hidden).square().sum().backward()
    shared = sum(
        torch.outer(layer.s[m], layer.r[m]) * weight.grad for m, weight in enumerate(weights)
    )
    torch.testing.assert_close(layer.weight.grad, shared)
    for m, weight in enumerate(weights):
        of_r = (layer.weight * layer.s[m][:, None] * weight.grad).sum(0)
        torch.testing.assert_close(layer.r.grad[m], of_r)
    assert torch.autograd.gradcheck(module, randn(2, 5).requires_grad_())


def test_unit_factors_are_the_base_network():
    unit = Scaling("normal", 1.0, 0.0, 1.0, 0.0)
    module, x = ensemble(2, unit), randn(9, 5)
    torch.testing.assert_close(module(x), network()(x).expand(2, -1, -1), rtol=1e-12, atol=1e-12)


def test_one_member_of_unit_factors_trains_as_the_base_network_does():
    """With the factors held at 1; how a batched product of one matrix rounds is up to the CPU."""
    module, plain = ensemble(1, Scaling("normal", 1.0, 0.0, 1.0, 0.0)), network()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.endswith((".r", ".s")))
    x, y = randn(20, 5), torch.arange(20) % 3
    optimizers = [
        torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.01)
        for net in (module, plain)
    ]
    for _ in range(10):
        for net, optimizer in zip((module, plain), optimizers, strict=True):
            optimizer.zero_grad()
            logits = net(x)
            nn.functional.cross_entropy(logits[0] if net is module else logits, y).backward()
            optimizer.step()
    torch.testing.assert_close(module(x)[0], plain(x), rtol=1e-13, atol=1e-13)


def test_number_of_parameters_of_the_published_network():
    net = mlp(784, 10, (256, 256), generator=generator())
    module = BatchEnsemble(net, torch.zeros(2, 784), 3, Scaling(), generator())
    count = {"weight": 0, "bias": 0, "r": 0, "s": 0}
    for name, parameter in module.named_parameters():
        count[name.rpartition(".")[2]] += parameter.numel()
    assert count["weight"] == 268_800
    assert count["r"] + count["s"] == 5_454
    assert count["bias"] == 1_566


def test_signs_keep_magnitudes_and_come_both():
    layer = nn.Linear(64, 8, dtype=torch.float64)
    r, s = Scaling("random_sign").draw(layer, 16, 1, generator())
    x = randn(64)
    torch.testing.assert_close((r * x).norm(dim=1), x.norm().expand(16))
    assert set(r.unique().tolist()) == set(s.unique().tolist()) == {-1.0, 1.0}
    assert (r.min(1).values < r.max(1).values).all()


def test_tabm_starts_with_signs_in_the_first_layer_alone():
    first, _, second, _, third = ensemble(scaling=Scaling("tabm")).network
    assert set(first.r.unique().tolist()) == {-1.0, 1.0}
    for factor in (first.s, second.r, second.s, third.r, third.s):
        assert (factor == 1).all()


def test_the_normal_law():
    r, s = Scaling("normal", 2.0, 0.1, -1.0, 3.0).draw(nn.Linear(500, 400), 30, 0, generator())
    assert r.mean().item() == pytest.approx(2.0, abs=0.01)
    assert r.std().item() == pytest.approx(0.1, abs=0.01)
    assert s.mean().item() == pytest.approx(-1.0, abs=0.1)
    assert s.std().item() == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_are_plain_ones_with_scaled_channels(groups, bias):
    conv = nn.Conv2d(4, 6, 3, padding=1, stride=2, groups=groups, bias=bias, dtype=torch.float64)
    r, s = randn(3, 4), randn(3, 6, seed=1)
    layer = BatchEnsembleConv2d.from_conv2d(conv, r, s)
    x = randn(3, 5, 4, 8, 8, seed=2)
    got = layer(x.flatten(0, 1)).unflatten(0, (3, 5))
    for m in range(3):
        out = conv(x[m] * r[m][:, None, None])
        if bias:
            out = out - conv.bias[:, None, None]
        expected = out * s[m][:, None, None] + (conv.bias[:, None, None] if bias else 0)
        torch.testing.assert_close(got[m], expected)


def test_a_network_of_ones_own_has_the_same_members():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = network()[:-1]
            self.norm = nn.BatchNorm1d(6, dtype=torch.float64)
            self.head = nn.Linear(6, 3, dtype=torch.float64)

        def forward(self, x):
            return self.head(self.norm(self.body(x)))

    module = ensemble(3, net=Own()).eval()
    x = randn(4, 5)
    assert module.for_prediction() is module
    members = []
    for m in range(3):
        layers = [*module.network.body, module.network.norm, module.network.head]
        for layer in layers:
            if isinstance(layer, BatchEnsembleLinear):
                part = layer.merged().to_linear(m)
                x_m = part(x if not members or len(members) <= m else members[m])
            else:
                x_m = layer(members[m])
            members[m : m + 1] = [x_m]
    torch.testing.assert_close(module(x), torch.stack(members), rtol=1e-12, atol=1e-12)
