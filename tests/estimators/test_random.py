import torch

from sklearn_probly.estimators._random import Streams
from sklearn_probly.modules.generators import borrowed_global_generators

from ._settings import ESTIMATORS, X, small, y


def test_streams_are_named_and_independent():
    streams = Streams(3)
    seeds = [streams.seed(*name) for name in [("a",), ("b",), ("a", 0), ("a", 1)]]
    assert len(set(seeds)) == 4
    assert Streams(3).seed("a", 1) == seeds[3]
    assert Streams(4).seed("a", 1) != seeds[3]
    assert streams.numpy("a").random() == Streams(3).numpy("a").random()
    first = torch.rand(3, generator=streams.torch("a"))
    assert torch.equal(first, torch.rand(3, generator=streams.torch("a")))


def test_the_global_generator_is_given_back():
    before = torch.get_rng_state()
    with borrowed_global_generators(5):
        first = torch.rand(2)
    assert torch.equal(torch.get_rng_state(), before)
    with borrowed_global_generators(5):
        assert torch.equal(torch.rand(2), first)


def test_the_default_network_never_asks_for_the_global_generator(monkeypatch):
    """Putting its state back would not do: another thread may draw in between."""

    def touched(*_):
        raise AssertionError("global generator")

    monkeypatch.setattr(torch, "manual_seed", touched)
    monkeypatch.setattr(torch, "set_rng_state", touched)
    monkeypatch.setattr(torch.random, "fork_rng", touched)
    for cls in ESTIMATORS:
        small(cls).fit(X, y).predict_uncertainty(X)
