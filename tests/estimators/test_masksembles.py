"""MasksemblesClassifier: what is its own."""

import numpy as np
import pytest

from sklearn_probly import MasksemblesClassifier

from ._settings import X, small, y


def test_scale_one_is_a_single_network():
    est = small(MasksemblesClassifier, scale=1.0).fit(X, y)
    np.testing.assert_allclose(est.predict_uncertainty(X, kind="epistemic"), 0, atol=1e-9)


def test_members_differ_where_masks_do():
    members = small(MasksemblesClassifier, num_masks=4).fit(X, y).predict_proba_members(X)
    gaps = np.abs(members[:, None] - members[None]).max((2, 3))
    assert (gaps[~np.eye(4, dtype=bool)] > 1e-6).all()


@pytest.mark.parametrize("width", [1, 3, 7, 64])
@pytest.mark.parametrize("num_masks", [1, 4, 8])
@pytest.mark.parametrize("scale", [1, 1.1, 4, 8])
def test_any_width(width, num_masks, scale):
    est = small(
        MasksemblesClassifier,
        hidden_layer_sizes=(width,),
        num_masks=num_masks,
        scale=scale,
        max_epochs=1,
    )
    assert est.fit(X, y).predict_proba_members(X).shape == (num_masks, 120, 3)


def test_no_hidden_layer_is_told():
    with pytest.raises(ValueError, match=r"hidden_layer_sizes=\(\)"):
        small(MasksemblesClassifier, hidden_layer_sizes=()).fit(X, y)
