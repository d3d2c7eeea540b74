"""The public contract, over all estimators."""

import contextlib
import inspect
import pickle
import random
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_probly import measures, predict_uncertainty

from ._settings import ENSEMBLES, ESTIMATORS, GRIDS, X, small, y

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.parametrize("cls", ESTIMATORS)


# Shapes, types and units --------------------------------------------------------------------


def test_predictions_have_the_promised_shapes_and_types(cls):
    est = small(cls).fit(X, y)
    proba, uncertainty = est.predict_with_uncertainty(X)
    assert proba.shape == (120, 3)
    assert proba.dtype == np.float32
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)
    assert uncertainty.shape == (120,)
    assert uncertainty.dtype == np.float64
    np.testing.assert_array_equal(est.predict_proba(X), proba)
    np.testing.assert_array_equal(est.predict_uncertainty(X), uncertainty)
    np.testing.assert_array_equal(est.predict(X), est.classes_[proba.argmax(1)])
    np.testing.assert_array_equal(est.predict_log_proba(X), np.log(proba))
    assert est.module_ is est.net_.module_
    assert est.history_ is est.net_.history
    assert len(est.history_) == est.n_iter_ == est.max_epochs


def test_uncertainty_is_that_of_the_members(cls):
    if cls not in ENSEMBLES:
        assert not hasattr(cls, "predict_proba_members")
        return
    est = small(cls).fit(X, y)
    members = est.predict_proba_members(X)
    np.testing.assert_allclose(members.mean(0), est.predict_proba(X), atol=1e-6)
    expected = measures.decompose(members)
    assert est.uncertainty_kinds_ == ("total", "aleatoric", "epistemic")
    for kind in est.uncertainty_kinds_:
        assert est.uncertainty_units_[kind] == "bits"
        got = est.predict_uncertainty(X, kind=kind)
        np.testing.assert_allclose(got, getattr(expected, kind), atol=1e-6)
        assert (got >= 0).all()
    assert (est.predict_uncertainty(X) <= np.log2(3)).all()


def test_dtype_is_that_of_training_and_of_probabilities(cls):
    est = small(cls, dtype="float64").fit(X.astype(np.float32), y)
    assert {p.dtype for p in est.module_.parameters()} == {torch.float64}
    assert est.predict_proba(X).dtype == np.float64


def test_an_unknown_kind_is_refused(cls):
    est = small(cls).fit(X, y)
    kinds = ", ".join(map(repr, est.uncertainty_kinds_))
    with pytest.raises(ValueError, match=f"kind='bogus' is not defined .* It defines {kinds}"):
        est.predict_uncertainty(X, kind="bogus")
    for kind in {"total", "aleatoric", "epistemic"} - set(est.uncertainty_kinds_):
        with pytest.raises(ValueError, match=f"kind='{kind}' is not defined") as caught:
            est.predict_uncertainty(X, kind=kind)
        assert "there is no such kind" not in str(caught.value)


# A row's answer is its own ------------------------------------------------------------------


def test_a_row_does_not_depend_on_its_batch(cls):
    est = small(cls).fit(X, y)
    proba, uncertainty = est.predict_with_uncertainty(X)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(est.predict_proba(X[order]), proba[order], atol=1e-6)
    np.testing.assert_allclose(est.predict_proba(X[:1]), proba[:1], atol=1e-6)
    np.testing.assert_allclose(est.predict_uncertainty(X[7:8]), uncertainty[7:8], atol=1e-5)
    for batch_size in (1, 7, 1000):
        est.set_params(batch_size=batch_size)
        np.testing.assert_allclose(est.predict_proba(X), proba, atol=1e-6)


# Randomness ---------------------------------------------------------------------------------


def test_same_seed_same_bits(cls):
    params = {"dropout": 0.2, "early_stopping": True, "batch_size": 32}
    first = small(cls, **params).fit(X, y)
    expected = first.predict_proba(X)
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(9)
    again = small(cls, **params).fit(X, y)
    assert again.n_iter_ == first.n_iter_
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    np.testing.assert_array_equal(first.fit(X, y).predict_proba(X), expected)
    np.testing.assert_array_equal(clone(first).fit(X, y).predict_proba(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict_proba(X), expected)
    other = small(cls, **params).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.predict_proba(X), expected)


def test_same_bits_in_another_process(cls):
    code = (
        "from tests.estimators.test_contract import X, y, small, ESTIMATORS; "
        f"cls = ESTIMATORS[{ESTIMATORS.index(cls)}]; "
        "print(small(cls, dropout=0.2).fit(X, y).predict_proba(X).tobytes().hex())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    expected = small(cls, dropout=0.2).fit(X, y).predict_proba(X)
    assert bytes.fromhex(out.stdout) == expected.tobytes()


def test_same_bits_in_threads(cls):
    expected = small(cls, dropout=0.2).fit(X, y).predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(small(cls, dropout=0.2).fit, X, y) for _ in range(4)]
    fitted = jobs[0].result()
    for job in jobs:
        np.testing.assert_array_equal(job.result().predict_proba(X), expected)
    with ThreadPoolExecutor(8) as pool:
        for proba in pool.map(lambda _: fitted.predict_proba(X), range(32)):
            np.testing.assert_array_equal(proba, expected)


def test_jobs_agree(cls):
    est = small(cls)
    one = cross_val_score(est, X, y, cv=2, scoring="neg_log_loss")
    two = cross_val_score(est, X, y, cv=2, scoring="neg_log_loss", n_jobs=2)
    np.testing.assert_allclose(two, one, atol=1e-4)


def test_no_seed_still_predicts_deterministically(cls):
    est = small(cls, random_state=None, dropout=0.5).fit(X, y)
    first = est.predict_proba(X)
    est.predict_uncertainty(X)
    np.testing.assert_array_equal(est.predict_proba(X), first)


def test_global_state_is_untouched(cls):
    def state():
        return (
            torch.get_rng_state().numpy().tobytes(),
            str(np.random.get_state()),  # noqa: NPY002
            random.getstate(),
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        )

    torch.manual_seed(3)
    before = state()
    est = small(cls, dropout=0.2, early_stopping=True, iterator_train__num_workers=0).fit(X, y)
    est.predict_uncertainty(X)
    assert state() == before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_fit_works_in_any_gradient_mode(cls, mode):
    expected = small(cls).fit(X, y).predict_proba(X)
    with mode():
        est = small(cls).fit(X, y)
    np.testing.assert_array_equal(est.predict_proba(X), expected)


def test_default_dtype_of_torch_does_not_matter(cls):
    expected = small(cls).fit(X, y).predict_proba(X)
    torch.set_default_dtype(torch.float64)
    try:
        got = small(cls).fit(X, y).predict_proba(X)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(got, expected)


# Labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels", [[3, 5, 7], [-1, 0, 1], ["a", "b", "ü"], [0.0, 1.0, 2.0]], ids=str
)
def test_any_labels(cls, labels):
    expected = small(cls).fit(X, y)
    labels = np.array(labels)
    est = small(cls).fit(X, labels[y])
    np.testing.assert_array_equal(est.classes_, labels)
    np.testing.assert_array_equal(est.predict_proba(X), expected.predict_proba(X))
    assert est.predict(X).dtype == labels.dtype


def test_bool_and_categorical_labels(cls):
    est = small(cls).fit(X, y > 0)
    assert est.predict(X).dtype == bool
    frame = pd.Series(np.array(["lo", "mid", "hi"])[y], dtype="category")
    assert set(small(cls).fit(X, frame).predict(X)) <= {"lo", "mid", "hi"}


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "float32"])
def test_label_dtypes(cls, dtype):
    assert small(cls).fit(X, y.astype(dtype)).predict(X).dtype == np.dtype(dtype)


def test_column_vector_of_labels_warns(cls):
    with pytest.warns(DataConversionWarning):
        small(cls).fit(X, y[:, None])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.eye(3)[y], "1d array|y should be"),
        (np.where(y == 0, np.nan, y), "NaN"),
        (y + 0.5, "Unknown label type"),
        (np.zeros(120), "one class, 0.0"),
        (y[:100], "inconsistent numbers of samples"),
    ],
)
def test_bad_labels(cls, bad, message):
    with pytest.raises(ValueError, match=message):
        small(cls).fit(X, bad)


# Inputs -------------------------------------------------------------------------------------


def test_kinds_of_arrays(cls):
    ints = np.round(X * 10)
    expected = small(cls).fit(ints, y).predict_proba(ints)
    read_only = ints.copy()
    read_only.flags.writeable = False
    variants = [
        ints.astype(np.float32),
        ints.astype(np.float16),
        ints.astype(np.int8),
        ints.tolist(),
        np.asfortranarray(ints),
        read_only,
        ints[:, ::-1].copy()[:, ::-1],
        np.repeat(ints, 2, axis=0)[::2],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for variant in variants:
            got = small(cls).fit(variant, y).predict_proba(variant)
            np.testing.assert_allclose(got, expected, atol=1e-5)
    np.testing.assert_array_equal(ints, np.round(X * 10))


def test_data_frames(cls):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    est = small(cls).fit(frame, y)
    assert est.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(est.predict_proba(frame), small(cls).fit(X, y).predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        est.predict(frame[list("bacdef")])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        est.predict(X)


def test_what_is_not_fitted_says_so(cls):
    for name in ("module_", "history_"):
        with pytest.raises(NotFittedError):
            getattr(small(cls), name)
        assert not hasattr(small(cls), name)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_uncertainty"])
def test_bad_rows_at_prediction(cls, method):
    with pytest.raises(NotFittedError):
        getattr(small(cls), method)(X)
    predict = getattr(small(cls).fit(X, y), method)
    for value in (np.nan, np.inf):
        bad = X.copy()
        bad[3, 2] = value
        with pytest.raises(ValueError, match="NaN|infinity"):
            predict(bad)
    with pytest.raises(ValueError, match="5 features, but"):
        predict(X[:, :5])
    with pytest.raises(ValueError, match="too large"):
        predict(np.full((1, 6), 1e300))
    for sign in (-1, 1):  # some networks overflow, none returns what is not finite
        with contextlib.suppress(ValueError):
            assert np.isfinite(predict(np.full((1, 6), sign * 3e38))).all()


def test_images_for_the_mlp_are_told_how_to_flatten(cls):
    with pytest.raises(ValueError, match=r"shape \(120, 2, 3\).*X.reshape\(len\(X\), -1\)"):
        small(cls).fit(X.reshape(120, 2, 3), y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"batch_size": 0}, "'batch_size' .* must be an int in the range \\[1, inf\\). Got 0"),
        ({"lr": -1.0}, "'lr' .* must be a float in the range \\(0"),
        ({"dropout": 1.0}, "'dropout'"),
        ({"activation": "rel"}, "'activation'"),
        ({"dtype": "float16"}, "'dtype'"),
        ({"early_stopping": "yes"}, "'early_stopping'"),
        ({"validation_fraction": 1.0}, "'validation_fraction'"),
    ],
)
def test_parameters_out_of_range(cls, params, message):
    with pytest.raises(InvalidParameterError, match=message):
        small(cls, **params).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden_layer_sizes": 32}, r"sequence of ints; got 32\. Use \(32,\)"),
        ({"hidden_layer_sizes": "32"}, "sequence of ints; got '32'"),
        ({"hidden_layer_sizes": b"ab"}, "sequence of ints; got b'ab'"),
        ({"hidden_layer_sizes": np.array(16)}, r"sequence of ints; got array\(16\)"),
        ({"optimizer": lambda parameters, lr: None}, "made a NoneType"),
        ({"optimizer__param_groups": 3}, "optimizer__"),
        ({"criterion__label_smoothing": -5.0}, r"label_smoothing must be in \[0, 1\]; got -5"),
        ({"callbacks": [print]}, "callbacks must be a skorch.callbacks.Callback"),
        ({"callbacks": ["LRScheduler"]}, "callbacks must be .* got 'LRScheduler'"),
        ({"callbacks": [("a", print)]}, "callbacks must be a skorch.callbacks.Callback"),
        ({"hidden_layer_sizes": (8, 0)}, "hidden_layer_sizes must be an int >= 1; got 0"),
        ({"device": "cdua"}, "device='cdua' cannot be used here"),
        ({"device": "cuda:77"}, "device='cuda:77' cannot be used here.*device='auto'"),
        ({"optimiser__weight_decay": 1.0}, "prefix 'optimiser'.*Did you mean 'optimizer'"),
        ({"optimizer__weight_decoy": 1.0}, "optimizer__.*weight_decoy"),
        ({"iterator_train__num_wrkers": 1}, "iterator_train__.*num_wrkers"),
        ({"criterion__smoothing": 1.0}, "criterion__.*smoothing"),
        ({"callbacks__bogus__x": 1.0}, "bogus"),
        ({"module__width": 3}, "'width'.*`module` is None"),
        ({"hidden_layer_sizes": (True,)}, "hidden_layer_sizes must be an int >= 1; got True"),
        ({"device": "meta"}, "device='meta' cannot be used here"),
        ({"criterion__reduction": "sum"}, "'criterion__reduction' is set by"),
        ({"iterator_train__batch_size": 3}, "'iterator_train__batch_size' is set by"),
        ({"optimizer__betas": 3}, "optimizer__.*not accepted"),
        ({"optimizer__lr": 0.1}, "'optimizer__lr' is set by .* from 'lr'"),
    ],
)
def test_parameters_that_mean_nothing(cls, params, message):
    est = small(cls).fit(X, y)
    expected = est.predict_proba(X)
    with pytest.raises(ValueError, match=message):
        est.set_params(**params).fit(X, y)
    np.testing.assert_array_equal(est.predict_proba(X), expected)


def test_a_loss_that_diverges_is_told_and_leaves_no_fit(cls):
    est = small(cls).fit(X, y)
    est.set_params(lr=1e30, early_stopping=True)
    with pytest.raises(ValueError, match=r"not finite after epoch \d+.*largest \|X\|.*lower lr"):
        est.fit(X * 1e6, y)
    with pytest.raises(NotFittedError):
        est.predict(X)
    assert not [name for name in vars(est) if name.endswith("_")]


def test_large_features_train_finitely(cls):
    est = small(cls).fit(X * 1e6, y)
    assert np.isfinite(est.predict_proba(X * 1e6)).all()


def test_bad_data_leaves_the_former_fit(cls):
    est = small(cls).fit(X, y)
    expected = est.predict_proba(X)
    with pytest.raises(ValueError, match="NaN"):
        est.fit(np.full((3, 4), np.nan), [0, 1, 1])
    np.testing.assert_array_equal(est.predict_proba(X), expected)


def test_an_interrupt_keeps_the_finished_epochs(cls):
    from skorch.callbacks import Callback

    class Interrupt(Callback):
        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 4:
                raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted after 3 epochs"):
        est = small(cls, callbacks=[Interrupt()]).fit(X, y)
    assert est.n_iter_ == 3
    expected = small(cls, max_epochs=3).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(est.predict_proba(X), expected)


@pytest.mark.parametrize("hook", ["on_train_begin", "on_batch_end", "on_train_end"])
@pytest.mark.parametrize("warm_start", [False, True])
def test_an_interrupt_before_anything_was_learned_leaves_the_former_fit(cls, hook, warm_start):
    from skorch.callbacks import Callback

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    est = small(cls, warm_start=warm_start).fit(X, y)
    expected = est.predict_proba(X)
    est.set_params(callbacks=[type("Interrupt", (Callback,), {hook: interrupt})()])
    with pytest.raises(KeyboardInterrupt):
        est.fit(X, y)
    np.testing.assert_array_equal(est.predict_proba(X), expected)


# NumPy's numbers and modes ------------------------------------------------------------------


def test_small_integers_of_numpy_are_integers(cls):
    names = [n for n, v in small(cls).get_params().items() if type(v) is int and v > 0]
    plain = small(cls, batch_size=100, **{n: 3 for n in names if n.startswith("num")})
    numpy = clone(plain).set_params(
        **{n: np.int8(v) for n, v in plain.get_params().items() if n in names or n == "batch_size"}
    )
    rows, labels = np.tile(X, (3, 1)), np.tile(y, 3)
    expected = plain.fit(rows, labels).predict_proba(rows)
    np.testing.assert_array_equal(numpy.fit(rows, labels).predict_proba(rows), expected)
    numpy.batch_size = np.uint8(100)
    np.testing.assert_array_equal(numpy.predict_proba(rows), expected)


def test_a_false_of_numpy_is_false(cls):
    est = small(cls, early_stopping=np.False_).fit(X, y, X_val=X, y_val=y)
    assert "valid_loss" not in est.history_[-1]


def test_underflow_is_no_error(cls):
    tiny = X.copy()
    tiny[0, 0] = 1e-300
    with np.errstate(all="raise"):
        est = small(cls).fit(tiny, y, X_val=tiny, y_val=y)
        est.predict_log_proba(tiny)
        est.predict_uncertainty(tiny)


# Weights ------------------------------------------------------------------------------------


def test_weights_are_repetitions(cls):
    if cls.__name__ == "MasksemblesClassifier":
        pytest.skip("a mask is drawn for each row, so a row of weight 3 is not three rows")
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = small(cls, max_epochs=50).fit(X, y, sample_weight=weight)
    repeated = small(cls, max_epochs=50, batch_size=1000).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3)


def test_constant_weights_change_nothing(cls):
    expected = small(cls).fit(X, y).predict_proba(X)
    for value in (1, 2):
        got = small(cls).fit(X, y, sample_weight=np.full(120, value)).predict_proba(X)
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_rows_of_weight_zero_are_absent(cls):
    weight = np.ones(120)
    weight[:10] = 0
    flipped = np.r_[(y[:10] + 1) % 3, y[10:]]
    first = small(cls).fit(X, y, sample_weight=weight)
    second = small(cls).fit(X, flipped, sample_weight=weight)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_class_weight_is_sample_weight(cls):
    by_class = small(cls, class_weight={0: 1, 1: 3, 2: 0.5}).fit(X, y)
    by_row = small(cls).fit(X, y, sample_weight=np.array([1, 3, 0.5])[y])
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), atol=1e-6)


def test_balanced_classes_are_so_by_weight(cls):
    rows, weight = np.r_[:120, :40], np.r_[np.ones(120), np.zeros(40)]
    balanced = small(cls, class_weight="balanced")
    expected = balanced.fit(X, y).predict_proba(X)
    got = balanced.fit(X[rows], y[rows], sample_weight=weight).predict_proba(X)
    np.testing.assert_array_equal(got, expected)
    inverse = 1 / np.bincount(y, np.arange(120.0))
    by_row = small(cls).fit(X, y, sample_weight=np.arange(120.0) * inverse[y]).predict_proba(X)
    got = balanced.fit(X, y, sample_weight=np.arange(120.0)).predict_proba(X)
    np.testing.assert_allclose(got, by_row, atol=1e-5)


@pytest.mark.parametrize("weight", [-np.ones(120), np.zeros(120), np.ones(7), np.full(120, np.nan)])
def test_bad_weights(cls, weight):
    with pytest.raises(ValueError, match="(?i)sample.weight|NaN"):
        small(cls).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("value", [1e308, 1e-308])
def test_weights_of_any_scale(cls, value):
    expected = small(cls).fit(X, y).predict_proba(X)
    got = small(cls).fit(X, y, sample_weight=np.full(120, value)).predict_proba(X)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    by_class = small(cls, class_weight=dict.fromkeys(range(3), value)).fit(X, y)
    np.testing.assert_allclose(by_class.predict_proba(X), expected, atol=1e-6)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf])
def test_bad_class_weights(cls, value):
    with pytest.raises(ValueError, match="class_weight must hold finite numbers >= 0"):
        small(cls, class_weight={0: value}).fit(X, y)


# Early stopping -----------------------------------------------------------------------------


def test_the_best_weights_are_kept(cls):
    noisy = np.where(np.random.default_rng(0).random(120) < 0.3, (y + 1) % 3, y)
    X_val, y_val = X[::3], np.random.default_rng(1).permutation(y[::3])
    est = small(cls, max_epochs=60, n_iter_no_change=50, hidden_layer_sizes=(64,))
    est.set_params(**{name: 0.03 for name in ("lr", "finetune_lr") if hasattr(est, name)})
    est.fit(X, noisy, X_val=X_val, y_val=y_val)
    by_member = np.array(est.history_[:, "member_valid_loss"])
    # Of the networks of DEUP, which stop each for itself, the first is the one that predicts.
    alone = cls.__name__ == "DEUPClassifier"
    losses = by_member[:, 0] if alone else np.array(est.history_[:, "valid_loss"])
    assert losses.min() < losses[-1]
    assert log_loss(y_val, est.predict_proba(X_val)) == pytest.approx(losses.min(), abs=1e-6)
    if cls in ENSEMBLES:
        members = [log_loss(y_val, proba) for proba in est.predict_proba_members(X_val)]
        np.testing.assert_allclose(members, by_member[losses.argmin()], atol=1e-6)
        assert losses.min() <= np.mean(members)


def test_validation_rows_of_next_to_no_weight(cls):
    weight = np.full(120, 1e-60)
    weight[:30] = 1
    est = small(cls, early_stopping=True, validation_fraction=0.02)
    est.fit(X, y, sample_weight=weight)
    assert np.isfinite(est.predict_proba(X)).all()


def test_one_row_of_weight(cls):
    weight = np.zeros(120)
    weight[0] = 1
    est = small(cls).fit(X, y, sample_weight=weight)
    assert np.isfinite(est.predict_uncertainty(X)).all()


def test_own_validation_rows_are_weighted_by_class(cls):
    est = small(cls, max_epochs=1, class_weight={0: 1, 1: 5, 2: 0}).fit(X, y, X_val=X, y_val=y)
    proba = est.predict_proba_members(X) if cls in ENSEMBLES else est.predict_proba(X)[None]
    losses = [log_loss(y, p, sample_weight=np.array([1, 5, 0])[y]) for p in proba]
    found = est.history_[-1, "member_valid_loss"]
    np.testing.assert_allclose(found[: len(losses)], losses, rtol=1e-4)


def test_own_validation_rows_may_lack_a_class(cls):
    est = small(cls).fit(X, y, X_val=X[y < 2], y_val=y[y < 2])
    assert est.classes_.tolist() == [0, 1, 2]
    assert est.predict_proba(X).shape == (120, 3)
    with pytest.raises(ValueError, match=r"not among the classes \[0, 1, 2\]: \[9\]"):
        small(cls).fit(X, y, X_val=X[:1], y_val=[9])
    with pytest.raises(ValueError, match="given together"):
        small(cls).fit(X, y, X_val=X)


def test_rare_classes(cls):
    rare = np.where(y == 2, 0, y)
    rare[0] = 2
    est = small(cls, early_stopping=True).fit(X, rare)
    assert est.predict_proba(X).shape == (120, 3)
    with pytest.raises(ValueError, match="n_samples=3 .*early_stopping=False"):
        small(cls, early_stopping=True).fit(X[:3], [0, 1, 2])


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_few_rows(cls, n, early_stopping):
    labels = np.arange(n) % 2
    est = small(cls, early_stopping=early_stopping)
    if n == 2 and early_stopping:
        with pytest.raises(ValueError, match="n_samples=2"):
            est.fit(X[:n], labels)
    else:
        assert np.isfinite(est.fit(X[:n], labels).predict_proba(X)).all()


def test_one_row_is_one_class(cls):
    with pytest.raises(ValueError, match="one class"):
        small(cls).fit(X[:1], y[:1])


@pytest.mark.parametrize(("n", "batch_size"), [(65, 32), (33, 1), (120, 500)])
def test_ragged_batches(cls, n, batch_size):
    est = small(cls, batch_size=batch_size, early_stopping=False).fit(X[:n], y[:n])
    assert np.isfinite(est.predict_proba(X)).all()


# Parameters, cloning, searches --------------------------------------------------------------


def test_every_parameter_is_listed_constrained_and_documented(cls):
    names = list(inspect.signature(cls).parameters)
    assert sorted(cls().get_params()) == sorted(names)
    assert sorted(cls._parameter_constraints) == sorted(names)
    for name, parameter in inspect.signature(cls).parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        default = parameter.default
        shown = "torch.optim.Adam" if default is torch.optim.Adam else default
        found = re.search(rf"^{name} : .*, default=(.*)$", inspect.getdoc(cls), re.M)
        assert found, f"{name} is not in the docstring"
        if isinstance(default, float):
            assert float(found[1]) == default, name
        elif default is not None:
            assert found[1].replace("'", '"').strip('"') == str(shown).replace("'", '"'), name


def test_clone_is_unfitted(cls):
    est = small(cls, optimizer__weight_decay=1e-4).fit(X, y)
    copy = clone(est)
    assert copy.get_params() == est.get_params()
    assert copy.get_params()["optimizer__weight_decay"] == 1e-4
    assert vars(copy).keys() == vars(small(cls)).keys()
    with pytest.raises(NotFittedError):
        copy.predict(X)


def test_misspelt_parameters(cls):
    with pytest.raises(TypeError, match="'batchsize'. Did you mean 'batch_size'"):
        cls(batchsize=3)
    with pytest.raises(ValueError, match="'droput'.*Did you mean 'dropout'"):
        cls().set_params(droput=0.1)


def test_set_params_takes_effect_at_the_next_fit(cls):
    est = small(cls).fit(X, y)
    expected = est.predict_proba(X)
    est.set_params(lr=1e-8, optimizer__weight_decay=0.1)
    np.testing.assert_array_equal(est.predict_proba(X), expected)
    fresh = small(cls, lr=1e-8, optimizer__weight_decay=0.1).fit(X, y)
    np.testing.assert_array_equal(est.fit(X, y).predict_proba(X), fresh.predict_proba(X))


def test_skorch_parameters_reach_skorch(cls):
    est = small(cls, optimizer=torch.optim.SGD, optimizer__momentum=0.5).fit(X, y)
    assert est.net_.optimizer_.param_groups[0]["momentum"] == 0.5
    grid = {"optimizer__momentum": [0.0, 0.9], "lr": [0.1]}
    search = GridSearchCV(est, grid, cv=2).fit(X, y)
    assert search.best_params_.keys() == grid.keys()


def test_search_over_the_main_parameters_in_a_pipeline(cls):
    pipeline = make_pipeline(StandardScaler(), small(cls))
    name = pipeline.steps[-1][0]
    grid = {f"{name}__{key}": values for key, values in GRIDS[cls].items()}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    expected = best[-1].predict_uncertainty(best[:-1].transform(X))
    np.testing.assert_array_equal(predict_uncertainty(search, X), expected)


def test_device_objects_and_names(cls):
    device = torch.device("cpu")
    est = small(cls, device=device).fit(X, y)
    assert clone(est).get_params()["device"] == device
    by_name = small(cls, device="cpu").fit(X, y)
    np.testing.assert_array_equal(est.predict_proba(X), by_name.predict_proba(X))


def test_a_device_that_is_gone_when_unpickled(cls):
    est = small(cls).fit(X, y)
    est.device = "cuda:77"
    with pytest.warns(UserWarning, match="cuda:77.*stay on the CPU"):
        back = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(back.predict_proba(X), est.predict_proba(X))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_agrees_with_the_cpu_and_its_pickle_is_on_the_cpu(cls):
    est = small(cls, device="cuda", max_epochs=3).fit(X, y)
    on_cpu = small(cls, device="cpu", max_epochs=3).fit(X, y)
    assert next(est.module_.parameters()).is_cuda
    np.testing.assert_allclose(est.predict_proba(X), on_cpu.predict_proba(X), atol=1e-4)
    state = est.net_.__getstate__()
    assert not any(p.is_cuda for p in state["module_"].parameters())
    back = pickle.loads(pickle.dumps(est))
    np.testing.assert_allclose(back.predict_proba(X), est.predict_proba(X), atol=1e-6)


def test_a_pickle_holds_no_training_rows(cls):
    wide = np.random.default_rng(0).normal(size=(20_000, 6))
    est = small(cls, max_epochs=1, early_stopping=True).fit(wide, np.arange(20_000) % 3)
    assert len(pickle.dumps(est)) < 100_000


def test_autocast_of_the_caller_does_not_matter(cls):
    expected = small(cls).fit(X, y).predict_proba(X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = small(cls).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("batch_size", [0, -1, 1.5])
def test_a_bad_batch_size_after_fit(cls, batch_size):
    est = small(cls).fit(X, y).set_params(batch_size=batch_size)
    with pytest.raises(InvalidParameterError, match="'batch_size'"):
        est.predict_proba(X)
