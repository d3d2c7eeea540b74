"""Quality of DAREEnsembleClassifier on MNIST, with notMNIST as foreign data.

Usage: python benchmarks/mnist.py DATA_HOME [--seeds N]

DATA_HOME holds MNIST/raw and NotMNIST/raw. Printed for each setting: the mean over seeds and, in
brackets, the least and the largest value.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from sklearn_probly import DAREEnsembleClassifier
from sklearn_probly.datasets import load_mnist
from sklearn_probly.metrics import error_detection_auroc, ood_auroc

SETTINGS = {
    "published": {
        "reg_weight": 1.0,
        "max_epochs": 5,
        "stop_accuracy": 0.97,
        "early_stopping": False,
    },
    "defaults": {},
    "defaults, no reg.": {"reg_weight": 0.0},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_home", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    X, y = load_mnist(options.data_home, download=False)
    X_test, y_test = load_mnist(options.data_home, train=False, download=False)
    foreign = options.data_home / "NotMNIST/raw/t10k-images-idx3-ubyte"
    X_ood = np.frombuffer(foreign.read_bytes()[16:], np.uint8).reshape(-1, 784) / np.float32(255)
    for name, params in SETTINGS.items():
        results = []
        for seed in range(options.seeds):
            est = DAREEnsembleClassifier(random_state=seed, **params).fit(X, y)
            proba, total = est.predict_with_uncertainty(X_test)
            row = {
                "accuracy": (proba.argmax(1) == y_test).mean(),
                "log-loss": log_loss(y_test, proba),
                "error AUROC": error_detection_auroc(y_test, proba.argmax(1), total),
            }
            for kind in ("total", "epistemic"):
                row[f"OOD AUROC, {kind}"] = ood_auroc(
                    est.predict_uncertainty(X_test, kind), est.predict_uncertainty(X_ood, kind)
                )
            row["epochs"] = est.n_iter_
            results.append(row)
        for key in results[0]:
            values = [row[key] for row in results]
            print(
                f"{name:18} {key:22} {np.mean(values):8.4f} "
                f"({min(values):.4f} to {max(values):.4f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
