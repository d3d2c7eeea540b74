import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from sklearn_probly.measures import Decomposition, decompose, decompose_moments, entropy


@st.composite
def ensembles(draw):
    shape = tuple(draw(st.integers(1, 5)) for _ in range(3))
    # Subnormal numbers would underflow in the mean and make the divergence of scipy infinite.
    weights = draw(arrays(float, shape, elements=st.floats(0, 1, allow_subnormal=False)))
    weights[..., 0] += weights.sum(axis=-1) < 1e-3
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("proba", "expected"),
    [
        ([0.5, 0.5], 1),
        ([0.9, 0.1], 0.468996),
        ([0.7, 0.2, 0.1], 1.156780),
    ],
)
def test_entropy_by_hand(proba, expected):
    assert_allclose(entropy(proba), expected, atol=5e-7)


def test_entropy_is_exact_at_zero_and_one():
    result = entropy(np.array([[0, 1, 0], [1, 0, 0]], dtype=np.float32))
    assert_array_equal(result, [0, 0])
    assert not np.signbit(result).any()
    assert result.dtype == np.float64
    assert_array_equal(entropy(np.full((2, 8), 1 / 8)), [3, 3])


@pytest.mark.parametrize("base", [2, np.e, 10])
@given(proba=ensembles())
def test_entropy_agrees_with_scipy(proba, base):
    assert_allclose(entropy(proba, base), stats.entropy(proba, base=base, axis=-1), atol=1e-12)


def test_entropy_clips_rounding():
    assert entropy([1 + 1e-7, -1e-7]) == 0


@pytest.mark.parametrize(
    ("proba", "match"),
    [
        (0.5, "axis of classes; got the scalar 0.5"),
        ([np.nan, 1], "finite; got nan"),
        ([np.inf, 0], "finite; got inf"),
        ([-0.1, 1.1], r"in \[0, 1\]; got -0.1"),
        ([1.1, 0], r"in \[0, 1\]; got 1.1"),
        ([0.5, 0.4], "got a sum of 0.9"),
        ([0.5, 0.502], "got a sum of 1.002"),
        (np.empty((2, 0)), "got a sum of 0"),
    ],
)
def test_entropy_rejects(proba, match):
    with pytest.raises(ValueError, match=match):
        entropy(proba)


@pytest.mark.parametrize("base", [1, 0.5, 0, -2, np.inf, np.nan])
def test_base_is_checked(base):
    with pytest.raises(ValueError, match="base must be a finite number greater than 1; got"):
        entropy([0.5, 0.5], base)
    with pytest.raises(ValueError, match="base must be a finite number greater than 1; got"):
        decompose([[[0.5, 0.5]]], base)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([[0.9, 0.1], [0.1, 0.9]], (1, 0.468996, 0.531004)),
        ([[0.8, 0.2], [0.6, 0.4]], (0.881291, 0.846439, 0.034852)),
        ([[1, 0], [0, 1]], (1, 0, 1)),
        ([[0.7, 0.2, 0.1]] * 3, (1.156780, 1.156780, 0)),
        ([[0.25] * 4] * 2, (2, 2, 0)),
    ],
)
def test_decompose_by_hand(members, expected):
    result = decompose(np.array(members, dtype=float)[:, None])
    assert isinstance(result, Decomposition)
    assert_allclose(np.ravel(result), expected, atol=1e-6)


@pytest.mark.parametrize("base", [2, np.e])
@given(proba=ensembles())
def test_decompose_invariants(proba, base):
    total, aleatoric, epistemic = decompose(proba, base)
    n_members, n_samples, n_classes = proba.shape
    log = np.log2 if base == 2 else np.log
    for part in (total, aleatoric, epistemic):
        assert part.shape == (n_samples,)
        assert part.dtype == np.float64
        assert (part >= 0).all()
    assert (total <= log(n_classes)).all()
    assert (epistemic <= log(min(n_members, n_classes)) + 1e-12).all()
    assert_array_equal(total, aleatoric + epistemic)
    # The mutual information in its other form, the mean divergence from the mean.
    divergence = stats.entropy(proba, proba.mean(axis=0)[None], base=base, axis=-1).mean(axis=0)
    assert_allclose(epistemic, divergence, atol=1e-12)


@settings(max_examples=50)
@given(proba=ensembles(), data=st.data())
def test_decompose_ignores_order_and_batches(proba, data):
    expected = np.array(decompose(proba))
    members = data.draw(st.permutations(range(proba.shape[0])))
    classes = data.draw(st.permutations(range(proba.shape[2])))
    split = data.draw(st.integers(0, proba.shape[1]))
    assert_allclose(decompose(proba[members]), expected, atol=1e-12)
    assert_allclose(decompose(proba[:, :, classes]), expected, atol=1e-12)
    halves = [decompose(proba[:, :split]), decompose(proba[:, split:])]
    assert_allclose(np.concatenate(halves, axis=1), expected, atol=1e-12)


@settings(max_examples=50)
@given(proba=ensembles())
def test_decompose_from_float32_moments(proba):
    single = proba.astype(np.float32)
    moments = single.mean(axis=0), entropy(single).mean(axis=0).astype(np.float32)
    result = decompose_moments(*moments)
    assert_allclose(result, decompose(proba), atol=1e-5)
    assert_array_equal(result.total, result.aleatoric + result.epistemic)
    assert (result.epistemic >= 0).all()


def test_decompose_takes_no_samples():
    assert all(part.shape == (0,) for part in decompose(np.empty((3, 0, 2))))


@pytest.mark.parametrize("proba", [[0.5, 0.5], [[0.5, 0.5]], [[[[0.5, 0.5]]]]])
def test_decompose_rejects_other_dimensions(proba):
    with pytest.raises(ValueError, match=r"got shape \(.*For a single model pass proba\[None\]"):
        decompose(proba)


def test_decompose_rejects_no_members():
    with pytest.raises(ValueError, match=r"at least one member; got shape \(0, 4, 2\)"):
        decompose(np.empty((0, 4, 2)))


def test_decompose_rejects_what_is_no_probability():
    with pytest.raises(ValueError, match="got a sum of 3"):
        decompose(np.ones((2, 4, 3)))


@pytest.mark.parametrize(
    ("mean_proba", "mean_entropy", "match"),
    [
        ([0.5, 0.5], [1], r"got \(2,\) and \(1,\)"),
        ([[0.5, 0.5]], [1, 1], r"got \(1, 2\) and \(2,\)"),
        ([[0.5, 0.5]], [[1]], r"got \(1, 2\) and \(1, 1\)"),
        ([[0.5, 0.5], [0.5, 0.5]], [1, 1.1], "in row 1 it is 1.1 and that is 1. Check .* base 2"),
        ([[0.5, 0.5]], [-0.1], "in row 0 it is -0.1"),
        ([[0.5, 0.5]], [np.nan], "in row 0 it is nan"),
    ],
)
def test_decompose_moments_rejects(mean_proba, mean_entropy, match):
    with pytest.raises(ValueError, match=match):
        decompose_moments(mean_proba, mean_entropy)
