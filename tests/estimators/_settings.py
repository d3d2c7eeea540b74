"""Small settings of the estimators, and the checks that they are known to fail."""

from sklearn_probly import DAREEnsembleClassifier

# Settings that make each estimator quick; everything not named is its default.
SMALL = {DAREEnsembleClassifier: {"hidden_layer_sizes": (16,), "max_epochs": 10, "num_members": 2}}
ESTIMATORS = list(SMALL)

# dtype -> check -> why it fails; nothing else may.
EXPECTED_FAILURES = {
    "float32": {
        "check_sample_weight_equivalence_on_dense_data": (
            "compares to 1e-7, below what float32 resolves; "
            "test_contract.py::test_weights_are_repetitions shows the same to 1e-3"
        )
    },
    "float64": {},
}


def small(cls, **params):
    return cls(**{**SMALL[cls], "random_state": 0, **params})
