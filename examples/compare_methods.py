"""All methods side by side: accuracy, calibration, finding errors, finding foreign rows, time.

Usage: python examples/compare_methods.py [--data {digits,mnist}] [--data-home DIR] [--output FILE]

On the 8 x 8 digits that ship with scikit-learn the foreign rows are digits whose pixels are
shuffled, all in the same way. ``--data mnist`` takes MNIST and, if DIR/NotMNIST/raw is there, the
letters of notMNIST, 5 epochs for each method. The picture shows the five test digits that each
method is least sure of.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from sklearn_probly import (
    BatchEnsembleClassifier,
    DAREEnsembleClassifier,
    DEUPClassifier,
    HetNetClassifier,
    MasksemblesClassifier,
)
from sklearn_probly.datasets import load_mnist
from sklearn_probly.inspection import MostUncertainDisplay
from sklearn_probly.metrics import error_detection_auroc, expected_calibration_error, ood_auroc

# Of one size, but for the error's network of DEUP, which is small here to be quick.
METHODS = {
    "plain ensemble": DAREEnsembleClassifier(reg_weight=0.0),
    "DARE": DAREEnsembleClassifier(),
    "BatchEnsemble": BatchEnsembleClassifier(),
    "Masksembles": MasksemblesClassifier(),
    "HetNet": HetNetClassifier(),
    "DEUP": DEUPClassifier(error_hidden_size=64, error_batch_size=256),
}


def load(name, data_home):
    """Return training rows, test rows, training labels, test labels and foreign rows."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X_train, X_test, y_train, y_test = train_test_split(
            X / 16, y, test_size=0.5, random_state=0
        )
    else:
        X_train, y_train = load_mnist(data_home)
        X_test, y_test = load_mnist(data_home, train=False)
        letters = Path(data_home or ".") / "NotMNIST/raw/t10k-images-idx3-ubyte"
        if letters.exists():
            pixels = np.frombuffer(letters.read_bytes()[16:], np.uint8)
            return X_train, X_test, y_train, y_test, pixels.reshape(-1, 784) / np.float32(255)
    shuffled = np.random.default_rng(0).permutation(X_test.shape[1])
    return X_train, X_test, y_train, y_test, X_test[:, shuffled]


def main(arguments=None):
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--data-home", default=None, help="where MNIST lies or is put")
    parser.add_argument("--output", default="compare_methods.png", help="the picture")
    options = parser.parse_args(arguments)
    X_train, X_test, y_train, y_test, X_foreign = load(options.data, options.data_home)

    figure = Figure(figsize=(10, 2.6 * len(METHODS)), layout="constrained")
    parts = figure.subfigures(len(METHODS), 1)
    print("method          accuracy  log-loss  calib. error  finds errors  finds foreign  seconds")
    for (name, estimator), part in zip(METHODS.items(), parts, strict=True):
        estimator.set_params(random_state=0)
        if options.data == "mnist":
            estimator.set_params(max_epochs=5)
        start = time.perf_counter()
        estimator.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        proba, uncertainty = estimator.predict_with_uncertainty(X_test)
        predicted = estimator.classes_[proba.argmax(axis=1)]
        # Rows that the members disagree on are foreign; not all methods have members.
        kind = "epistemic" if "epistemic" in estimator.uncertainty_kinds_ else None
        foreign = ood_auroc(
            estimator.predict_uncertainty(X_test, kind=kind),
            estimator.predict_uncertainty(X_foreign, kind=kind),
        )
        print(
            f"{name:15} {accuracy_score(y_test, predicted):8.4f} {log_loss(y_test, proba):9.4f} "
            f"{expected_calibration_error(y_test, proba):13.4f} "
            f"{error_detection_auroc(y_test, predicted, uncertainty):13.4f} {foreign:14.4f} "
            f"{seconds:8.1f}"
        )
        part.supylabel(name)
        MostUncertainDisplay.from_estimator(
            estimator, X_test, y_test, n_images=5, ax=part.subplots(1, 5)
        )
    figure.savefig(options.output, dpi=80)
    print(f"\nThe five digits that each is least sure of: {options.output}")


if __name__ == "__main__":
    main()
