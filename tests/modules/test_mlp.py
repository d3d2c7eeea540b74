import math

import pytest
import torch
from torch import nn

from sklearn_probly.modules.mlp import Dropout, linear, mlp


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_shape_and_layers():
    net = mlp(5, 3, (7, 4), activation="tanh", dropout=0.1, generator=generator())
    kinds = [nn.Linear, nn.Tanh, Dropout, nn.Linear, nn.Tanh, Dropout, nn.Linear]
    assert [type(layer) for layer in net] == kinds
    assert net(torch.zeros(2, 5)).shape == (2, 3)
    assert sum(p.numel() for p in net.parameters()) == 5 * 7 + 7 + 7 * 4 + 4 + 4 * 3 + 3


def test_no_hidden_layer_is_a_linear_model():
    assert [type(layer) for layer in mlp(5, 3, (), generator=generator())] == [nn.Linear]


def test_initial_law_is_that_of_torch():
    layer = linear(400, 300, generator(), torch.float32)
    torch.manual_seed(0)
    reference = nn.Linear(400, 300)
    for ours, theirs in zip(
        layer.state_dict().values(), reference.state_dict().values(), strict=True
    ):
        assert ours.abs().max() <= 1 / math.sqrt(400)
        assert ours.std() == pytest.approx(theirs.std().item(), rel=0.1)
    assert layer.weight.detach().std() == pytest.approx(1 / math.sqrt(3 * 400), rel=0.01)


def test_the_global_generator_is_not_used():
    before = torch.get_rng_state()
    net = mlp(5, 3, (7,), dropout=0.5, generator=generator())
    for layer in net:
        if isinstance(layer, Dropout):
            layer.generator = generator()
    net(torch.ones(4, 5))
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_keeps_the_mean_and_is_off_in_evaluation():
    layer = Dropout(0.3)
    layer.generator = generator()
    out = layer(torch.ones(100_000))
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert out.mean() == pytest.approx(1, abs=0.01)
    assert (out == 0).float().mean() == pytest.approx(0.3, abs=0.01)
    x = torch.randn(5)
    assert layer.eval()(x) is x
