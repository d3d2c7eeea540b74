import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sklearn_probly.estimators._data import BatchSampler, Rows, stratified_split

CPU = torch.device("cpu")


@given(
    y=st.lists(st.integers(0, 4), min_size=2, max_size=200).map(np.array),
    fraction=st.floats(0.01, 0.9),
    seed=st.integers(0, 100),
)
def test_split_is_a_stratified_partition(y, fraction, seed):
    train, valid = stratified_split(y, fraction, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(np.r_[train, valid]), np.arange(len(y)))
    counts, held_out = np.bincount(y), np.bincount(y[valid], minlength=y.max() + 1)
    assert (held_out[counts > 0] < counts[counts > 0]).all(), "every class stays in training"
    assert (held_out <= fraction * counts + 1).all()
    if counts.max() > 1:
        assert len(valid) > 0
    again = stratified_split(y, fraction, np.random.default_rng(seed))
    np.testing.assert_array_equal(again[1], valid)


def test_split_keeps_the_shares():
    y = np.repeat([0, 1, 2], [500, 300, 200])
    _, valid = stratified_split(y, 0.1, np.random.default_rng(0))
    assert np.bincount(y[valid]).tolist() == [50, 30, 20]


@pytest.mark.parametrize("n_orders", [1, 3])
def test_every_row_is_visited_once_an_epoch(n_orders):
    generators = [torch.Generator().manual_seed(i) for i in range(n_orders)]
    sampler = BatchSampler(10, 4, generators, CPU)
    batches = list(sampler)
    assert len(sampler) == 3
    assert [b.shape[-1] for b in batches] == [4, 4, 2]
    order = torch.cat(batches, dim=-1).reshape(n_orders, -1)
    assert (order.sort(1).values == torch.arange(10)).all()
    if n_orders > 1:
        assert not torch.equal(order[0], order[1])
    assert not torch.equal(torch.cat(list(sampler), dim=-1).reshape(n_orders, -1), order)


def test_dropping_the_last_batch_and_not_shuffling():
    sampler = BatchSampler(10, 4, [torch.Generator()], CPU, shuffle=False, drop_last=True)
    assert torch.cat(list(sampler)).tolist() == list(range(8))
    few = BatchSampler(3, 4, [torch.Generator()], CPU, drop_last=True)
    assert len(list(few)) == 1, "an epoch is never empty"


def test_rows_by_one_order_or_by_several():
    table = torch.arange(12.0).view(6, 2)
    rows = Rows(table, torch.arange(6), torch.arange(6.0), index=torch.tensor([5, 3, 1]))
    X, (y, weight) = rows[torch.tensor([[0, 2], [1, 1]])]
    assert y.tolist() == [[5, 1], [3, 3]]
    assert weight.tolist() == [[5.0, 1.0], [3.0, 3.0]]
    torch.testing.assert_close(X, table[y])
    assert rows.all().y.tolist() == [5, 3, 1]
    assert len(rows) == 3
