"""HetNetClassifier: what is its own."""

import numpy as np
import pytest
import torch
from scipy.special import entr

from sklearn_probly import HetNetClassifier, measures

from ._settings import X, small, y


def test_all_uncertainty_is_aleatoric():
    est = small(HetNetClassifier).fit(X, y)
    total = est.predict_uncertainty(X)
    np.testing.assert_array_equal(est.predict_uncertainty(X, kind="aleatoric"), total)
    np.testing.assert_allclose(measures.entropy(est.predict_proba(X)), total, atol=1e-5)
    with pytest.raises(ValueError, match="its noise is label noise"):
        est.predict_uncertainty(X, kind="epistemic")


@pytest.mark.parametrize("labels", [y, y == 1], ids=["three classes", "two classes"])
def test_noise_information_is_part_of_the_total(labels):
    est = small(HetNetClassifier).fit(X, labels)
    information, total = est.predict_noise_information(X), est.predict_uncertainty(X)
    assert information.dtype == np.float64
    assert ((information >= 0) & (information <= total)).all()
    assert information.max() > 1e-3
    est.batch_size = 7
    np.testing.assert_allclose(est.predict_noise_information(X), information, atol=1e-6)


def test_noise_information_is_gone_without_noise():
    est = small(HetNetClassifier, num_factors=0).fit(X, y)
    with torch.no_grad():
        est.module_.scale.weight.zero_()
        est.module_.scale.bias.fill_(-20)
    np.testing.assert_allclose(est.predict_noise_information(X), 0, atol=1e-4)


def test_the_noisy_half_is_found():
    """Labels of the right half are drawn with 0.3: H(0.3) = 0.8813 bits there, 0 on the left."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, size=(4000, 2))
    labels = (points[:, 1] > 0).astype(int)
    noisy = (points[:, 0] > 0) & (rng.random(4000) < 0.3)
    labels[noisy] = 1 - labels[noisy]
    est = HetNetClassifier(hidden_layer_sizes=(64,), max_epochs=40, lr=3e-3, random_state=0)
    est.fit(points, labels)
    new = rng.uniform(-1, 1, size=(2000, 2))
    new = new[(np.abs(new) > 0.2).all(1)]  # away from the borders
    uncertainty = est.predict_uncertainty(new)
    right = new[:, 0] > 0
    expected = (entr(0.3) + entr(0.7)) / np.log(2)
    assert uncertainty[right].mean() == pytest.approx(expected, abs=0.06)
    assert uncertainty[~right].mean() < 0.15


def test_rank_is_that_of_the_classes_up_to_ten():
    wide = np.random.default_rng(0).normal(size=(60, 6))
    for n_classes, rank in [(3, 3), (12, 10)]:
        est = small(HetNetClassifier, max_epochs=1).fit(wide, np.arange(60) % n_classes)
        assert est.module_.num_factors == rank


@pytest.mark.parametrize("temperature", [1e-3, 1e3])
def test_extreme_settings_stay_finite(temperature):
    for data, lr in [(X * 1e4, 1e-3), (np.ones_like(X), 1e-3), (X, 1.0)]:
        est = small(HetNetClassifier, temperature=temperature, lr=lr).fit(data, y)
        assert np.isfinite(est.predict_proba(data)).all()
        assert np.isfinite(est.predict_uncertainty(data)).all()
