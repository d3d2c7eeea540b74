import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sklearn_probly.measures import dare_score, decompose, decompose_moments, entropy


@st.composite
def member_probas(draw):
    """Members of every shape, from all but uniform to one-hot, exact zeros among them."""
    shape = draw(hnp.array_shapes(min_dims=3, max_dims=3, max_side=6))
    weights = draw(hnp.arrays(float, shape, elements=st.just(0.0) | st.floats(1e-12, 1.0)))
    weights[weights.sum(axis=-1) == 0] = 1.0
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("proba", "expected"),
    [
        ((0.5, 0.5), 1.0),
        ((0.9, 0.1), 0.468996),
        ((0.7, 0.2, 0.1), 1.156780),
        ((1.0, 0.0), 0.0),
        ((0.25,) * 4, 2.0),
        ((1.0,), 0.0),
    ],
)
def test_entropy_by_hand(proba, expected):
    assert entropy(proba) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("base", [2, math.e, 10, 3.5])
def test_entropy_agrees_with_scipy(base):
    proba = np.random.default_rng(0).dirichlet(np.full(7, 0.3), size=(4, 5))
    expected = scipy.stats.entropy(proba, base=base, axis=-1)
    np.testing.assert_allclose(entropy(proba, base), expected, rtol=1e-12, atol=1e-15)


def test_entropy_is_exact_at_the_ends():
    ends = entropy([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert ends.tolist() == [0.0, 0.0]
    assert not np.signbit(ends).any()
    assert entropy(np.full(8, 1 / 8)) == 3.0


def test_entropy_is_finite_next_to_the_ends():
    tiny = np.nextafter(0.0, 1.0)
    assert 0 <= entropy([tiny, 1 - tiny]) < 1e-300


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 1000])
def test_entropy_of_low_precision_is_float64_and_bounded(dtype, n_classes):
    h = entropy(np.full((1, n_classes), 1 / n_classes, dtype=dtype))
    assert h.dtype == np.float64
    assert 0.999 * np.log2(n_classes) < h[0] <= np.log2(n_classes)


@pytest.mark.parametrize("shape", [(0, 3), (3,), (2, 3), (4, 2, 3)])
def test_entropy_drops_the_last_axis(shape):
    assert entropy(np.full(shape, 1 / 3)).shape == shape[:-1]


@pytest.mark.parametrize(
    ("proba", "match"),
    [
        ([np.nan, 1.0], r"finite and in \[0, 1\]; got nan"),
        ([np.inf, 0.0], r"finite and in \[0, 1\]; got inf"),
        ([-0.1, 1.1], r"in \[0, 1\]; got -0.1.*not logits"),
        ([1.1, -0.1], r"in \[0, 1\]; got 1.1"),
        ([[0.5, 0.5], [0.5, 0.4]], r"sum to one .* got a sum of 0.9.*predict_proba"),
        ([[]], r"sum to one .* got a sum of 0"),
        (0.5, r"shape \(\.\.\., n_classes\); got the single number 0.5.*\[p, 1 - p\]"),
    ],
)
def test_entropy_refuses_what_is_no_probability(proba, match):
    with pytest.raises(ValueError, match=match):
        entropy(proba)


@pytest.mark.parametrize("base", [1, 0, -2, 0.5, np.inf, np.nan])
def test_bad_base(base):
    with pytest.raises(ValueError, match=r"base must be a finite number above 1; got .*Use 2"):
        entropy([0.5, 0.5], base=base)


@pytest.mark.parametrize(
    ("members", "total", "aleatoric", "epistemic"),
    [
        ([(0.9, 0.1), (0.1, 0.9)], 1.0, 0.468996, 0.531004),
        ([(0.8, 0.2), (0.6, 0.4)], 0.881291, 0.846439, 0.034852),
        ([(1.0, 0.0), (0.0, 1.0)], 1.0, 0.0, 1.0),
        ([(0.7, 0.2, 0.1)] * 3, 1.156780, 1.156780, 0.0),
        ([(1 / 3,) * 3] * 4, np.log2(3), np.log2(3), 0.0),
        ([(0.7, 0.2, 0.1)], 1.156780, 1.156780, 0.0),
    ],
)
def test_decompose_by_hand(members, total, aleatoric, epistemic):
    parts = decompose(np.array(members)[:, None])
    np.testing.assert_allclose(np.ravel(parts), [total, aleatoric, epistemic], rtol=0, atol=1e-6)
    assert parts._fields == ("total", "aleatoric", "epistemic")


@given(member_probas())
def test_epistemic_is_mean_divergence_from_the_mean(members):
    divergence = scipy.stats.entropy(members, members.mean(axis=0), base=2, axis=-1)
    np.testing.assert_allclose(
        decompose(members).epistemic, divergence.mean(axis=0), rtol=1e-9, atol=1e-9
    )


@given(member_probas(), st.sampled_from([2, math.e, 10]))
def test_bounds_and_sum(members, base):
    parts = decompose(members, base)
    n_members, n_samples, n_classes = members.shape
    limit = np.log2(n_classes) if base == 2 else np.log(n_classes) / np.log(base)
    for part in parts:
        assert part.dtype == np.float64
        assert part.shape == (n_samples,)
        assert (part >= 0).all()
    assert (parts.total <= limit).all()
    assert (parts.aleatoric <= parts.total).all()
    assert (parts.epistemic <= np.log(n_members) / np.log(base) + 1e-9).all()
    np.testing.assert_array_equal(parts.total, parts.aleatoric + parts.epistemic)


@given(member_probas(), st.randoms(use_true_random=False))
def test_order_of_members_and_classes_does_not_matter(members, random):
    m, _, k = members.shape
    shuffled = members[random.sample(range(m), m)][:, :, random.sample(range(k), k)]
    np.testing.assert_allclose(decompose(shuffled), decompose(members), rtol=0, atol=1e-12)


@given(member_probas())
def test_rows_do_not_see_each_other(members):
    by_row = [decompose(members[:, [i]]) for i in range(members.shape[1])]
    np.testing.assert_allclose(
        np.concatenate(by_row, axis=1), decompose(members), rtol=0, atol=1e-12
    )


@given(member_probas())
def test_moments_give_the_same(members):
    moments = decompose_moments(members.mean(axis=0), entropy(members).mean(axis=0))
    np.testing.assert_array_equal(moments, decompose(members))


def test_moments_clip_rounding():
    parts = decompose_moments([[0.5, 0.5], [0.5, 0.5]], [1 + 1e-6, -1e-6])
    np.testing.assert_array_equal(parts, [[1, 1], [1, 0], [0, 1]])


@pytest.mark.parametrize("mean_entropy", [np.nan, np.inf, 1.5, -0.5])
def test_moments_refuse_an_impossible_entropy(mean_entropy):
    with pytest.raises(
        ValueError, match=rf"got {mean_entropy:g} at row 1, where that entropy is 1.*base=2"
    ):
        decompose_moments([[0.5, 0.5], [0.5, 0.5]], [0.5, mean_entropy])


def test_moments_refuse_other_shapes():
    with pytest.raises(ValueError, match=r"got \(2, 2\) and \(3,\). Average both"):
        decompose_moments([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match=r"got \(2,\) and \(1,\). Average both"):
        decompose_moments([0.5, 0.5], [0.5])


@pytest.mark.parametrize("shape", [(3,), (4, 3), (1, 1, 4, 3), (0, 4, 3)])
def test_decompose_refuses_other_shapes(shape):
    with pytest.raises(ValueError, match=r"use proba\[None\] for a single model") as info:
        decompose(np.full(shape, 1 / 3))
    assert f"got shape {shape}" in str(info.value)


def test_decompose_checks_every_member():
    with pytest.raises(ValueError, match=r"sum to one .* got a sum of 0.5"):
        decompose([[[0.25, 0.25]], [[0.75, 0.75]]])  # their mean is a distribution


def test_input_is_not_changed():
    members = np.array([[[1.0005, -0.0005]], [[0.5, 0.5]]])
    before = members.copy()
    decompose(members)
    np.testing.assert_array_equal(members, before)


@pytest.mark.parametrize(("ddof", "expected"), [(1, 2.0), (0, 1.5)])
def test_dare_score_by_hand(ddof, expected):
    """Fit 1.0 and dispersion 1.0, or 0.5 with the variance of the population."""
    logits = np.array([(3.0, 0, 0), (2, 1, 0)])[:, None]
    assert dare_score(logits, ddof) == pytest.approx([expected])
    together = np.concatenate([logits, logits[:, :, ::-1]], axis=1)  # classes the other way round
    assert dare_score(together, ddof) == pytest.approx([expected] * 2)


def test_dare_score_is_nil_at_the_code():
    code = np.broadcast_to(3 * np.eye(3), (4, 3, 3))
    assert (dare_score(code) == 0).all()
    assert dare_score(code[:1], ddof=0) == pytest.approx(0)


@pytest.mark.parametrize(
    ("logits", "ddof", "match"),
    [
        (np.zeros((2, 3)), 1, r"got shape \(2, 3\)"),
        (np.zeros((1, 3, 2)), 1, "more than ddof=1 members"),
        (np.zeros((2, 3, 0)), 1, "at least one class"),
        (np.full((2, 1, 2), np.nan), 1, "finite; got nan"),
        (np.zeros((3, 3, 2)), 2, "ddof must be 0 or 1; got 2"),
    ],
)
def test_dare_score_refuses(logits, ddof, match):
    with pytest.raises(ValueError, match=match):
        dare_score(logits, ddof)
