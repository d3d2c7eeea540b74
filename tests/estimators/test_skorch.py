"""skorch inside: callbacks, iterators, history, the net on its own."""

import numpy as np
import pytest
import torch

from ._settings import ESTIMATORS, X, small, y

pytestmark = pytest.mark.parametrize("cls", ESTIMATORS)


def test_skorch_callbacks_work_and_share_no_state(cls):
    from skorch.callbacks import EarlyStopping, LRScheduler

    scheduler = LRScheduler(policy="StepLR", step_size=1, gamma=0.5)
    stopper = EarlyStopping(monitor="train_loss", patience=2, threshold=10.0)
    est = small(cls, callbacks=[scheduler, ("stop", stopper)]).fit(X, y)
    first = est.n_iter_
    assert 1 < first < 10
    assert est.net_.optimizer_.param_groups[0]["lr"] == pytest.approx(est.net_.lr * 0.5**first)
    assert small(cls, callbacks=[scheduler, ("stop", stopper)]).fit(X, y).n_iter_ == first
    assert est.fit(X, y).n_iter_ == first


def test_batch_callbacks_are_told(cls):
    from skorch.callbacks import Callback

    class Count(Callback):
        def initialize(self):
            self.losses = []

        def on_batch_end(self, net, training=False, **kwargs):
            self.losses.append(net.history[-1, "batches", -1, "train_loss"])

    est = small(cls, callbacks=[("count", Count())], batch_size=50, max_epochs=2).fit(X, y)
    losses = dict(est.net_.callbacks_)["count"].losses
    assert len(losses) == 6
    assert np.isfinite(losses).all()


def test_a_data_loader_gives_the_same_fit(cls):
    expected = small(cls, batch_size=50).fit(X, y).predict_proba(X)
    loaded = small(cls, batch_size=50, iterator_train__num_workers=1).fit(X, y)
    np.testing.assert_array_equal(loaded.predict_proba(X), expected)


def test_verbose_draws_one_bar_for_the_whole_fit(cls, capsys):
    small(cls, verbose=1).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    epochs = small(cls)._phase_epochs()
    assert f"{epochs}/{epochs}" in captured.err
    assert captured.err.count("\n") == 1
    assert "accuracy=" in captured.err
    small(cls, verbose=2).fit(X, y)
    assert "train_loss" in capsys.readouterr().out


def test_a_callback_may_hold_anything_and_is_left_alone(cls):
    from skorch.callbacks import Callback

    class Collect(Callback):
        def __init__(self):
            self.seen = []

        def on_epoch_end(self, net, **kwargs):
            self.seen.append(net.history[-1, "train_loss"])

    callback = Collect()
    est = small(cls, callbacks=[("collect", callback)]).fit(X, y)
    assert len(dict(est.net_.callbacks_)["collect"].seen) == 10
    assert callback.seen == []
    est.set_params(callbacks__collect=None).fit(X, y)
    assert "collect" not in dict(est.net_.callbacks_)


def test_a_callback_that_draws_follows_the_seed(cls):
    from skorch.callbacks import Initializer

    def proba():
        drawing = Initializer("*weight", fn=torch.nn.init.normal_)
        return small(cls, callbacks=[drawing]).fit(X, y).predict_proba(X)

    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = proba()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    np.testing.assert_array_equal(proba(), first)


def test_skorch_checkpoints_work(cls, tmp_path):
    from skorch.callbacks import Checkpoint, TrainEndCheckpoint

    callbacks = [Checkpoint(dirname=tmp_path / "best"), TrainEndCheckpoint(dirname=tmp_path)]
    small(cls, callbacks=callbacks, early_stopping=True).fit(X, y)
    assert (tmp_path / "best" / "params.pt").exists()
    assert (tmp_path / "train_end_params.pt").exists()


@pytest.mark.parametrize("on_train", [False, True])
def test_scoring_callbacks(cls, on_train):
    from skorch.callbacks import BatchScoring, EpochScoring, PassthroughScoring

    def mean_confidence(net, X, y):
        return net.predict_proba(X).max(1).mean()

    kwargs = {"on_train": on_train, "lower_is_better": False}
    callbacks = [
        ("accuracy", EpochScoring("accuracy", name="acc", **kwargs)),
        ("log_loss", EpochScoring("neg_log_loss", name="nll", **kwargs)),
        ("own", EpochScoring(mean_confidence, name="confidence", **kwargs)),
        ("batch", BatchScoring("accuracy", name="batch_acc", **kwargs)),
        ("passed", PassthroughScoring("train_loss", on_train=True)),
    ]
    est = small(cls, callbacks=callbacks, early_stopping=not on_train, batch_size=50).fit(X, y)
    last = est.history_[-1]
    assert 0 <= last["acc"] <= 1
    assert last["acc"] == pytest.approx(last["batch_acc"])
    assert last["nll"] < 0
    assert 1 / 3 <= last["confidence"] <= 1
    assert isinstance(last["acc_best"], bool)


def test_scores_are_those_of_the_net(cls):
    from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring

    X_val, y_val = X[::2], y[::2]
    callbacks = [
        EpochScoring("accuracy", name="valid_acc", lower_is_better=False),
        EarlyStopping(monitor="valid_acc", lower_is_better=False, patience=8),
        Checkpoint(
            monitor="valid_acc_best",
            f_params=None,
            f_optimizer=None,
            f_criterion=None,
            f_history=None,
        ),
    ]
    est = small(cls, callbacks=callbacks, n_iter_no_change=50, max_epochs=3)
    if hasattr(est, "error_cv"):
        est.set_params(error_cv=None)  # the networks of folds take part in the scores
    est.fit(X, y, X_val=X_val, y_val=y_val)
    np.testing.assert_allclose(est.net_.predict_proba(X), est.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(est.net_.predict(X), est.predict(X))
    if np.argmin(est.history_[:, "valid_loss"]) == 2 and cls.__name__ != "DAREEnsembleClassifier":
        assert est.history_[-1]["valid_acc"] == pytest.approx(est.score(X_val, y_val))
