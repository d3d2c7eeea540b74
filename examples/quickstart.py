"""Learn handwritten digits, say how sure the model is, and draw the digits it is least sure of.

Usage: python examples/quickstart.py [--data {digits,mnist}] [--data-home DIR] [--output FILE]

The default is the 8 x 8 digits that ship with scikit-learn, and takes seconds. ``--data mnist`` is
the same on MNIST, read from DIR/MNIST/raw or downloaded there, and takes minutes.
"""

import argparse

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from sklearn_probly import DAREEnsembleClassifier, predict_uncertainty
from sklearn_probly.datasets import load_mnist
from sklearn_probly.inspection import MostUncertainDisplay
from sklearn_probly.metrics import error_detection_auroc

EPILOGUE = "What to do with the least sure rows: reject them, look at them, label them anew."


def load(name, data_home):
    """Return training rows, test rows, training labels, test labels."""
    if name == "digits":
        return train_test_split(*load_digits(return_X_y=True), test_size=0.5, random_state=0)
    X_train, y_train = load_mnist(data_home)
    X_test, y_test = load_mnist(data_home, train=False)
    return X_train, X_test, y_train, y_test


def main(arguments=None):
    """Run the example and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--data-home", default=None, help="where MNIST lies or is put")
    parser.add_argument("--output", default="quickstart.png", help="the picture")
    options = parser.parse_args(arguments)

    X_train, X_test, y_train, y_test = load(options.data, options.data_home)
    print(f"{options.data}: {len(X_train):,} rows to learn from, {len(X_test):,} to test on\n")

    # Fit, as any classifier.
    model = make_pipeline(MinMaxScaler(), DAREEnsembleClassifier(random_state=0, verbose=1))
    model.fit(X_train, y_train)

    # How good it is, and whether it knows where it is wrong.
    predicted = model.predict(X_test)
    uncertainty = predict_uncertainty(model, X_test)  # bits
    sure = uncertainty <= np.quantile(uncertainty, 0.9)
    rows = {
        "accuracy": accuracy_score(y_test, predicted),
        "log-loss (nats)": log_loss(y_test, model.predict_proba(X_test)),
        "AUROC of the uncertainty for errors": error_detection_auroc(
            y_test, predicted, uncertainty
        ),
        "accuracy on the 90 % it is most sure of": accuracy_score(y_test[sure], predicted[sure]),
        "accuracy on the 10 % it is least sure of": accuracy_score(y_test[~sure], predicted[~sure]),
    }
    print()
    for name, value in rows.items():
        print(f"{name:42} {value:.4f}")

    # The digits it is least sure of.
    figure = Figure(figsize=(10, 2.6), layout="constrained")
    axes = figure.subplots(1, 5)
    MostUncertainDisplay.from_estimator(model, X_test, y_test, n_images=5, ax=axes)
    figure.savefig(options.output, dpi=120)
    print(f"\nThe five digits it is least sure of: {options.output}")

    # Choose the size of the ensemble and the threshold, as with any classifier.
    grid = {
        "dareensembleclassifier__num_members": [1, 3],
        "dareensembleclassifier__threshold": [0.03, 0.3],
    }
    model.set_params(
        dareensembleclassifier__verbose=0,
        dareensembleclassifier__max_epochs=30 if options.data == "digits" else 5,
    )
    search = GridSearchCV(model, grid, cv=3, scoring="neg_log_loss", refit=False)
    search.fit(X_train, y_train)
    print("\nnum_members  threshold  log-loss (3 folds)")
    for chosen, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        num_members, threshold = chosen.values()
        print(f"{num_members:11}  {threshold:9}  {-score:.4f}")
    print(f"\n{EPILOGUE}")


if __name__ == "__main__":
    main()
