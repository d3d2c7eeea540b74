"""Small settings of the estimators, and the checks that they are known to fail."""

from sklearn.datasets import make_classification

from sklearn_probly import (
    BatchEnsembleClassifier,
    DAREEnsembleClassifier,
    DEUPClassifier,
    HetNetClassifier,
    MasksemblesClassifier,
)

X, y = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)

# Settings that make each estimator quick; everything not named is its default.
COMMON = {"hidden_layer_sizes": (16,), "max_epochs": 10, "lr": 1e-3, "dropout": 0.0}
SMALL = {
    BatchEnsembleClassifier: {
        **COMMON,
        "num_members": 2,
        "scaling_init": "normal",
        "pretrain_epochs": 2,
        "finetune_lr": 1e-3,
    },
    DAREEnsembleClassifier: {**COMMON, "num_members": 2},
    DEUPClassifier: {
        **COMMON,
        "error_cv": 2,
        "error_hidden_size": 16,
        "error_max_epochs": 3,
    },
    HetNetClassifier: COMMON,
    MasksemblesClassifier: {**COMMON, "num_masks": 2},
}
# What a user would search over first.
GRIDS = {
    BatchEnsembleClassifier: {"num_members": [1, 2], "scaling_init": ["normal", "random_sign"]},
    DAREEnsembleClassifier: {"num_members": [1, 2], "threshold": [0.1, 0.5]},
    DEUPClassifier: {"error_cv": [None, 2], "error_hidden_size": [8, 16]},
    HetNetClassifier: {"num_factors": [0, 2], "temperature": [0.5, 1.0]},
    MasksemblesClassifier: {"num_masks": [2, 4], "scale": [1.5, 2.0]},
}
ESTIMATORS = list(SMALL)
ENSEMBLES = [cls for cls in ESTIMATORS if hasattr(cls, "predict_proba_members")]

_FLOAT32 = (
    "compares to 1e-7, below what float32 resolves; "
    "test_contract.py::test_weights_are_repetitions shows the same to 1e-3"
)


_MASK_A_ROW = "a mask is drawn for each row, so a row of weight 3 is not three rows"


def expected_failures(estimator):
    """Return check -> why it fails; nothing else may."""
    check = "check_sample_weight_equivalence_on_dense_data"
    if isinstance(estimator, MasksemblesClassifier):
        return {check: _MASK_A_ROW}
    return {check: _FLOAT32} if estimator.dtype == "float32" else {}


def small(cls, **params):
    return cls(**{**SMALL[cls], "random_state": 0, **params})
