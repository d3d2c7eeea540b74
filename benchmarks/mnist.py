"""Quality of the estimators on MNIST, with notMNIST as foreign data.

Usage: python benchmarks/mnist.py DATA_HOME [--seeds N] [--only NAME ...] [--settings NAME ...]

DATA_HOME holds MNIST/raw and NotMNIST/raw. Printed for each estimator and setting: the mean over
seeds and, in brackets, the least and the largest value.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from sklearn_probly import (
    BatchEnsembleClassifier,
    DAREEnsembleClassifier,
    DEUPClassifier,
    HetNetClassifier,
    MasksemblesClassifier,
)
from sklearn_probly.datasets import load_mnist
from sklearn_probly.metrics import error_detection_auroc, expected_calibration_error, ood_auroc

FIVE_EPOCHS = {"max_epochs": 5, "early_stopping": False, "lr": 1e-3, "dropout": 0.0}
SEED = {**FIVE_EPOCHS, "stop_accuracy": 0.97}
# The published experiments: a network of 784-256-256-10, at most 5 epochs a phase.
PUBLISHED = {
    "DARE": (DAREEnsembleClassifier, {**SEED, "num_members": 3, "reg_weight": 1.0}),
    "BatchEnsemble": (
        BatchEnsembleClassifier,
        {**SEED, "num_members": 3, "scaling_init": "normal", "pretrain_epochs": 5},
    ),
    "Masksembles": (
        MasksemblesClassifier,
        {**FIVE_EPOCHS, "num_masks": 4, "lr": 1e-4, "batch_size": 64},
    ),
    "HetNet": (HetNetClassifier, {**SEED, "num_factors": 10, "num_samples": 800}),
    "DEUP": (DEUPClassifier, {**SEED, "error_cv": None}),
}
PUBLISHED_ACCURACY = {
    "DARE": 0.970,
    "BatchEnsemble": 0.973,
    "Masksembles": 0.928,
    "HetNet": 0.967,
    "DEUP": 0.975,
}
SETTINGS = {
    "published": PUBLISHED,
    "defaults": {name: (cls, {}) for name, (cls, _) in PUBLISHED.items()},
    "baselines": {
        "one network": (DAREEnsembleClassifier, {"reg_weight": 0.0, "num_members": 1}),
        "plain ensemble": (DAREEnsembleClassifier, {"reg_weight": 0.0}),
    },
}


def load(data_home):
    """Return training and test digits, and letters of notMNIST."""
    train = load_mnist(data_home, download=False)
    test = load_mnist(data_home, train=False, download=False)
    foreign = Path(data_home) / "NotMNIST/raw/t10k-images-idx3-ubyte"
    letters = np.frombuffer(foreign.read_bytes()[16:], np.uint8).reshape(-1, 784) / np.float32(255)
    return train, test, letters


def evaluate(estimator, X_test, y_test, X_ood):
    """Return what is reported of a fitted estimator."""
    proba, uncertainty = estimator.predict_with_uncertainty(X_test)
    row = {
        "accuracy": (proba.argmax(1) == y_test).mean(),
        "log-loss": log_loss(y_test, proba),
        "ECE": expected_calibration_error(y_test, proba),
        "error AUROC": error_detection_auroc(y_test, proba.argmax(1), uncertainty),
    }
    for kind in estimator.uncertainty_kinds_:
        if kind != "aleatoric":
            row[f"OOD AUROC, {kind}"] = ood_auroc(
                estimator.predict_uncertainty(X_test, kind),
                estimator.predict_uncertainty(X_ood, kind),
            )
    row["epochs"] = estimator.n_iter_
    return row


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_home", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    options = parser.parse_args()
    (X, y), (X_test, y_test), X_ood = load(options.data_home)
    for setting in options.settings:
        for name, (cls, params) in SETTINGS[setting].items():
            if options.only and name not in options.only:
                continue
            results = []
            for seed in range(options.seeds):
                start = time.perf_counter()
                est = cls(random_state=seed, **params).fit(X, y)
                seconds = time.perf_counter() - start
                results.append({**evaluate(est, X_test, y_test, X_ood), "fit, seconds": seconds})
            for key in results[0]:
                values = [row[key] for row in results]
                print(
                    f"{setting:10} {name:15} {key:22} {np.mean(values):8.4f} "
                    f"({min(values):.4f} to {max(values):.4f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
