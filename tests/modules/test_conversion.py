import pytest
import torch
from torch import nn
from torch.nn import functional

from sklearn_probly.modules.conversion import (
    called_layers,
    convert_layers,
    join_head,
    split_head,
)

ROWS = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)  # registered first, called last
        self.inner = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4))

    def forward(self, x):
        return self.last(x + self.inner(x))


class Doubled(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return 2 * self.layer(x)


def test_layers_come_in_the_order_of_calls():
    assert called_layers(Residual(), ROWS) == ["inner.0.0", "inner.1", "last"]


def test_all_layers_are_converted_in_a_copy():
    net = Residual()
    positions = []

    def convert(layer, position):
        positions.append(position)
        return Doubled(layer)

    converted = convert_layers(net, ROWS, convert)
    assert positions == [0, 1, 2]
    assert type(net.last) is nn.Linear
    inner = 2 * net.inner[1](functional.relu(2 * net.inner[0][0](ROWS)))
    torch.testing.assert_close(converted(ROWS), 2 * net.last(ROWS + inner))


def test_a_single_layer_and_a_shared_one():
    layer = nn.Linear(4, 4)
    assert isinstance(convert_layers(layer, ROWS, lambda x, _: Doubled(x)), Doubled)
    shared = convert_layers(nn.Sequential(layer, nn.ReLU(), layer), ROWS, lambda x, _: Doubled(x))
    assert shared[0] is shared[2]


def test_functional_use_is_told():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(4, 4)
            self.out = nn.Linear(4, 3)

        def forward(self, x):
            return self.out(functional.linear(x, self.hidden.weight))

    with pytest.raises(ValueError, match=r"'hidden' \(Linear\) is never called"):
        convert_layers(Functional(), ROWS, lambda x, _: x)


class OwnWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))

    def forward(self, x):
        return functional.linear(x, self.weight)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Sequential(nn.Linear(4, 4), OwnWeight()), r"'1' \(OwnWeight\) of module has weights"),
        (nn.Sequential(nn.Linear(4, 4), nn.GRU(4, 3)), r"'1' \(GRU\)"),
        (nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 2)), r"\(Conv1d\)"),
        (nn.Sequential(nn.ReLU()), "no torch.nn.Linear"),
    ],
)
def test_what_cannot_be_converted_is_named(network, message):
    with pytest.raises(ValueError, match=message):
        convert_layers(network, ROWS, lambda x, _: x)


@pytest.mark.parametrize(
    "network",
    [Residual(), nn.Linear(4, 3), nn.Sequential(nn.Sequential(nn.Linear(4, 5)), nn.Linear(5, 3))],
)
def test_a_head_is_split_off_and_put_back(network):
    expected = network(ROWS)
    backbone, head = split_head(network, ROWS)
    torch.testing.assert_close(head(backbone(ROWS)), expected, rtol=0, atol=0)
    torch.testing.assert_close(join_head(backbone, head)(ROWS), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)),
        nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (3, 2)), nn.AvgPool1d(2), nn.Flatten()),
        nn.Sequential(nn.ReLU()),
    ],
)
def test_a_network_without_a_linear_head_is_told(network):
    with pytest.raises(ValueError, match="must end in a torch.nn.Linear"):
        split_head(network, ROWS)
