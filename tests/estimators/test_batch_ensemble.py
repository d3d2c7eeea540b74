"""BatchEnsembleClassifier: what is its own."""

import numpy as np
import pytest
import torch

from sklearn_probly import BatchEnsembleClassifier, DAREEnsembleClassifier

from ._settings import X, small, y


def fit(**params):
    return small(BatchEnsembleClassifier, **params).fit(X, y)


def test_no_pretraining_trains_the_members_with_lr():
    est = fit(pretrain_epochs=0, lr=0.01)
    assert est.net_.lr == 0.01
    assert est.n_iter_ == est.max_epochs
    assert fit(pretrain_epochs=1, finetune_lr=0.02).net_.lr == 0.02


def test_pretraining_is_that_of_a_single_network():
    """With factors that stay 1, and a rate of next to nothing, the members are the backbone."""
    unit = {"r_std": 0.0, "s_std": 0.0, "finetune_lr": 1e-12, "max_epochs": 1}
    est = fit(pretrain_epochs=7, **unit)
    single = small(DAREEnsembleClassifier, num_members=1, reg_weight=0.0, max_epochs=7).fit(X, y)
    np.testing.assert_allclose(est.predict_proba(X), single.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(est.predict_uncertainty(X, kind="epistemic"), 0, atol=1e-6)


def test_stop_accuracy_ends_both_phases():
    est = fit(stop_accuracy=0.01, pretrain_epochs=5)
    assert est.n_iter_ == 1
    unit = {"r_std": 0.0, "s_std": 0.0, "finetune_lr": 1e-12, "max_epochs": 1}
    stopped = fit(stop_accuracy=0.01, pretrain_epochs=5, **unit).predict_proba(X)
    np.testing.assert_allclose(stopped, fit(pretrain_epochs=1, **unit).predict_proba(X), atol=1e-5)


def test_factors_have_no_weight_decay():
    groups = fit(optimizer=torch.optim.AdamW).net_.optimizer_.param_groups
    assert sorted((len(g["params"]), g["weight_decay"]) for g in groups) == [(4, 0.0), (4, 0.01)]
    own = [("*.[rs]", {"lr": 0.5})]
    groups = fit(optimizer__param_groups=own).net_.optimizer_.param_groups
    assert sorted(g["lr"] for g in groups) == [1e-3, 0.5]


def test_an_optimizer_without_groups():
    assert np.isfinite(fit(optimizer=torch.optim.LBFGS, lr=0.1).predict_proba(X)).all()


def test_members_differ_after_training():
    assert (fit().predict_uncertainty(X, kind="epistemic") > 0).all()


def test_each_row_is_seen_by_each_member_once_an_epoch():
    rows = []

    class Count(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(6, 3)

        def forward(self, x):
            if self.training and torch.is_grad_enabled():
                rows.append(len(x))
            return self.layer(x)

    fit(module=Count, pretrain_epochs=0, num_members=4, max_epochs=2, batch_size=50)
    assert rows == [200, 200, 80] * 2


def test_warm_start_does_not_pretrain_again():
    est = fit(warm_start=True)
    before = {k: v.clone() for k, v in est.module_.state_dict().items()}
    est.set_params(finetune_lr=1e-12, max_epochs=1).fit(X, y)
    for key, value in est.module_.state_dict().items():
        torch.testing.assert_close(value, before[key])


@pytest.mark.parametrize("scaling_init", ["random_sign", "tabm"])
def test_other_starts(scaling_init):
    est = fit(scaling_init=scaling_init, pretrain_epochs=0)
    assert (est.predict_uncertainty(X, kind="epistemic") > 0).any()
