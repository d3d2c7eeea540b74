import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sklearn_probly.modules.embeddings import PeriodicEncoding, PiecewiseLinearEncoding


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


# Piecewise linear ---------------------------------------------------------------------------


def test_by_hand():
    """Values 0, 1, 3 are two bins; 0 and 10 are one."""
    X = torch.tensor([[0.0, 0.0], [1.0, 10.0], [3.0, 10.0]], dtype=torch.float64)
    encoding = PiecewiseLinearEncoding(X)
    assert encoding.width == 3
    rows = torch.tensor([[0.5, 5.0], [2.0, 20.0], [-1.0, -10.0], [5.0, 0.0]]).double()
    expected = [[0.5, 0, 0.5], [1, 0.5, 2], [-1, 0, -1], [1, 2, 0]]
    torch.testing.assert_close(encoding(rows), torch.tensor(expected).double())


def test_as_the_library_of_the_paper_does():
    library = pytest.importorskip("rtdl_num_embeddings")
    X = randn(500, 3)
    bins = library.compute_bins(X, n_bins=24)
    theirs = library.PiecewiseLinearEncoding(bins)
    rows = randn(50, 3, seed=1) * 3
    # Its quantiles are at float32 shares.
    torch.testing.assert_close(PiecewiseLinearEncoding(X)(rows), theirs(rows), rtol=0, atol=1e-5)


def test_as_numpy_interpolates():
    """The bins of a feature add up to its place among the edges, within their range."""
    X = randn(300, 1)
    edges = np.quantile(X[:, 0], np.linspace(0, 1, 9))
    rows = torch.linspace(float(edges[0]), float(edges[-1]), 57, dtype=torch.float64)[:, None]
    got = PiecewiseLinearEncoding(X, n_bins=8)(rows).sum(1)
    np.testing.assert_allclose(got, np.interp(rows[:, 0], edges, np.arange(9)), atol=1e-9)


def test_repetitions_and_order_mean_nothing():
    X = randn(40, 2)
    rows = torch.cat([X, X[:7], X[:7]]).flip(0)
    for ours, theirs in zip(
        PiecewiseLinearEncoding(X).buffers(), PiecewiseLinearEncoding(rows).buffers(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_scale_and_place_mean_nothing():
    X, rows = randn(100, 2), randn(20, 2, seed=1)
    expected = PiecewiseLinearEncoding(X)(rows)
    got = PiecewiseLinearEncoding(X * 1e6 - 3e6)(rows * 1e6 - 3e6)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def test_a_feature_that_is_the_same_in_all_rows():
    encoding = PiecewiseLinearEncoding(torch.full((5, 1), 7.0))
    assert encoding(torch.tensor([[7.0], [9.0]])).tolist() == [[0], [2]]


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 12), st.integers(1, 3)),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_finite_on_the_training_rows_whatever_they_are(values):
    X = torch.from_numpy(values)
    encoded = PiecewiseLinearEncoding(X)(X)
    assert encoded.isfinite().all()
    assert encoded.dtype == torch.float32
    assert (encoded >= -1e-3).all()


def test_members_with_rows_of_their_own():
    X, rows = randn(60, 3), randn(2, 8, 3, seed=1)
    encoding = PiecewiseLinearEncoding(X)
    torch.testing.assert_close(encoding(rows)[1], encoding(rows[1]), rtol=0, atol=0)


# Periodic -----------------------------------------------------------------------------------


def test_waves_by_hand():
    X = torch.tensor([[0.0, 5.0], [4.0, 5.0]], dtype=torch.float64)
    encoding = PeriodicEncoding(X, generator(), n_frequencies=2)
    assert encoding.width == 10
    got = encoding(torch.tensor([[3.0, 5.0]]).double())[0]
    a, b = encoding.frequency[0] * 0.5  # 3 is half of the way from the middle to the largest
    expected = torch.stack([a * 0 + 0.5, a * 0, a.sin(), b.sin(), a * 0, a * 0])
    torch.testing.assert_close(got[:6], expected)
    torch.testing.assert_close(got[6:8], torch.stack([a.cos(), b.cos()]))
    assert (got[8:] == 1).all()


def test_frequencies_have_the_deviation_asked_for():
    encoding = PeriodicEncoding(randn(10, 50), generator(), n_frequencies=200, scale=0.3)
    assert (encoding.frequency / (2 * np.pi)).std().item() == pytest.approx(0.3, rel=0.03)


def test_waves_of_members_with_rows_of_their_own():
    X, rows = randn(60, 3), randn(2, 8, 3, seed=1)
    encoding = PeriodicEncoding(X, generator())
    torch.testing.assert_close(encoding(rows)[1], encoding(rows[1]), rtol=0, atol=0)
