"""One line of results: a model fitted and measured on one split."""

import time

import numpy as np
from sklearn.metrics import log_loss

from sklearn_probly.metrics import (
    area_under_risk_coverage,
    error_detection_auroc,
    expected_calibration_error,
)


def measure(model, X_train, y_train, X_test, y_test):
    """Return what is measured of `model`; uncertainty is 1 - the largest probability."""
    n_classes = max(y_train.max(), y_test.max()) + 1
    start = time.perf_counter()
    model.fit(X_train, y_train)
    fitted = time.perf_counter()
    known = model.predict_proba(X_test)
    predicted = time.perf_counter()
    proba = np.full((len(y_test), n_classes), 1e-12)
    proba[:, model.classes_] = np.clip(known, 1e-12, 1)
    proba /= proba.sum(1, keepdims=True)
    labels, doubt = proba.argmax(1), 1 - proba.max(1)
    one_hot = np.eye(n_classes)[y_test]
    line = {
        "accuracy": np.mean(labels == y_test),
        "log_loss": log_loss(y_test, proba, labels=np.arange(n_classes)),
        "brier": np.mean(np.square(proba - one_hot).sum(1)),
        "ece": expected_calibration_error(y_test, proba, labels=np.arange(n_classes)),
        "aurc": area_under_risk_coverage(y_test, labels, doubt),
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
    }
    if 0 < np.mean(labels == y_test) < 1:
        line["error_auroc"] = error_detection_auroc(y_test, labels, doubt)
    if hasattr(model, "predict_uncertainty"):
        own = model.predict_uncertainty(X_test)
        line["aurc_own"] = area_under_risk_coverage(y_test, labels, own)
        line["n_iter"] = model.n_iter_
    return {name: round(float(value), 6) for name, value in line.items()}
