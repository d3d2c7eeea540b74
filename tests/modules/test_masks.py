import itertools
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sklearn_probly.modules.masks import MaskedInput, Masksembles, balanced_turns, make_masks
from sklearn_probly.modules.mlp import mlp


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def module(num_masks=4, scale=2.0, sizes=(12, 9), activation="relu"):
    net = mlp(5, 3, sizes, activation=activation, generator=generator(), dtype=torch.float64)
    return Masksembles(net, randn(2, 5), num_masks, scale, generator(1))


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("width", "num_masks", "scale", "kept"),
    [
        (256, 4, 2.0, 136),
        (128, 4, 2.0, 68),
        (64, 4, 1.5, 43),
        (256, 8, 3.0, 88),
        (100, 4, 4.0, 36),
        (256, 4, 1.0, 256),
    ],
)
def test_units_kept(width, num_masks, scale, kept):
    masks = make_masks(num_masks, width, scale, generator())
    assert masks.shape == (num_masks, width)
    assert (masks.sum(1) == kept).all()
    assert masks.any(0).all()


@pytest.mark.parametrize("num_masks", [1, 2, 4, 8])
@pytest.mark.parametrize("width", [1, 3, 7, 10, 64, 257])
@pytest.mark.parametrize("scale", [1, 1.1, 1.3, 2, 4, 8, 1e300])
def test_every_width_is_met_exactly(width, num_masks, scale):
    masks = make_masks(num_masks, width, scale, generator())
    assert masks.shape == (num_masks, width)
    assert masks.any(0).all()
    assert len(masks.sum(1).unique()) == 1


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 10), st.integers(1, 80), st.floats(1, 20), st.integers(0, 99))
def test_masks_of_any_size(num_masks, width, scale, seed):
    masks = make_masks(num_masks, width, scale, generator(seed))
    assert torch.equal(masks, make_masks(num_masks, width, scale, generator(seed)))
    assert masks.any(0).all()
    assert len(masks.sum(1).unique()) == 1


@pytest.mark.parametrize(
    ("width", "num_masks", "scale", "iou"),
    [(256, 4, 2.0, 0.331), (64, 4, 1.5, 0.484), (256, 8, 3.0, 0.201), (1024, 8, 4.0, 0.145)],
)
def test_overlap_is_that_of_the_reference(width, num_masks, scale, iou):
    values = []
    for seed in range(20):
        masks = make_masks(num_masks, width, scale, generator(seed))
        for a, b in itertools.combinations(masks, 2):
            values.append((a & b).sum() / (a | b).sum())
    assert torch.stack(values).mean().item() == pytest.approx(iou, abs=0.025)


def dense_member(net, index, x):
    """The network with one mask, a layer at a time."""
    for layer in net.network:
        if isinstance(layer, MaskedInput):
            layer, x = layer.layer, x * layer.masks[index]
        x = layer(x)
    return x


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_prediction_is_every_mask_once_a_row(activation, n_rows):
    net, x = module(activation=activation).eval(), randn(n_rows, 5)
    expected = torch.stack([dense_member(net, m, x) for m in range(4)])
    torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(net.for_prediction()(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 3, 7])
def test_training_is_one_mask_a_row(n_rows):
    net, x = module().train(), randn(n_rows, 5)
    net.generator = generator(7)
    got = net(x)
    turns = balanced_turns(n_rows, 4, generator(7), torch.device("cpu"))
    expected = torch.stack([dense_member(net, m, x[i : i + 1])[0] for i, m in enumerate(turns)])
    torch.testing.assert_close(got[0], expected, rtol=1e-12, atol=1e-12)
    assert net.turns.of_row is None


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 50), st.integers(1, 9), st.integers(0, 99))
def test_all_masks_take_equal_turns(n_rows, n_members, seed):
    turns = balanced_turns(n_rows, n_members, generator(seed), torch.device("cpu"))
    counts = torch.bincount(turns, minlength=n_members)
    assert counts.max() - counts.min() <= 1


def test_units_that_are_masked_get_no_gradient():
    net = module(sizes=(12,)).train()
    net.generator = generator(7)
    turn = balanced_turns(1, 4, generator(7), torch.device("cpu")).item()
    net(randn(1, 5)).sum().backward()
    head = net.network[2]
    assert (head.layer.weight.grad[:, ~head.masks[turn]] == 0).all()
    assert (net.network[0].weight.grad[~head.masks[turn]] == 0).all()


def test_scale_one_is_the_plain_network():
    net, x = module(scale=1.0), randn(6, 5)
    plain = mlp(5, 3, (12, 9), generator=generator(), dtype=torch.float64)
    torch.testing.assert_close(net.eval()(x), plain(x).expand(4, -1, -1))
    torch.testing.assert_close(net.train()(x)[0], plain(x))


def test_masks_are_saved_with_the_weights():
    net, x = module().eval(), randn(6, 5)
    other = Masksembles(net_of(2), randn(2, 5), 4, 2.0, generator(99))
    other.load_state_dict(net.state_dict())
    torch.testing.assert_close(other.eval()(x), net(x))
    torch.testing.assert_close(pickle.loads(pickle.dumps(net))(x), net(x))


def net_of(seed):
    return mlp(5, 3, (12, 9), generator=generator(seed), dtype=torch.float64)


def test_convolutions_are_masked_by_channel():
    conv = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 6, 3), nn.Flatten(), nn.Linear(24, 3)
    ).double()
    x = randn(5, 1, 6, 6)
    net = Masksembles(conv, x[:2], 3, 2.0, generator()).eval()
    masks = net.network[2].masks, net.network[4].masks
    for m in range(3):
        hidden = conv[2](conv[1](conv[0](x)) * masks[0][m][:, None, None])
        expected = conv[4](conv[3](hidden) * masks[1][m])
        torch.testing.assert_close(net(x)[m], expected)
    assert net.for_prediction() is net
    assert net.train()(x).shape == (1, 5, 3)


def test_a_network_without_hidden_units_is_told():
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=\(\)"):
        module(sizes=())
