"""All estimators on real images and on a real table with text and missing values."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_probly import predict_uncertainty
from sklearn_probly.datasets import load_mnist
from sklearn_probly.metrics import error_detection_auroc

from .estimators._settings import ESTIMATORS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
every = pytest.mark.parametrize("cls", ESTIMATORS)
# DEUP's error network at its published size takes minutes.
QUICK = {"DEUPClassifier": {"error_hidden_size": 64, "error_batch_size": 256, "error_cv": 3}}


def small_conv(n_channels, n_classes):
    return torch.nn.Sequential(
        torch.nn.Conv2d(n_channels, 8, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 6 * 6, n_classes),
    )


@every
def test_a_convolutional_network_on_mnist(cls, shared_data):
    X, y = load_mnist(shared_data, flatten=False, download=False)
    X_test, y_test = load_mnist(shared_data, train=False, flatten=False, download=False)
    X, X_test = X.reshape(-1, 1, 28, 28)[:20_000], X_test.reshape(-1, 1, 28, 28)
    params = {"max_epochs": 4, "lr": 5e-3, **QUICK.get(cls.__name__, {})}
    est = cls(module=small_conv, random_state=0, **params)
    est.fit(X, y[:20_000])
    proba, uncertainty = est.predict_with_uncertainty(X_test)
    assert (proba.argmax(1) == y_test).mean() > 0.93
    assert error_detection_auroc(y_test, proba.argmax(1), uncertainty) > 0.85


@every
def test_a_table_with_text_and_missing_values(cls, shared_data):
    frame = pd.read_csv(shared_data / "tabular" / "adult.csv.gz")
    X, y = frame.drop(columns="target"), frame["target"]
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    numbers = make_column_selector(dtype_include="number")
    text = make_column_selector(dtype_exclude="number")
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), text),
        ]
    )
    quick = QUICK.get(cls.__name__, {})
    model = make_pipeline(columns, cls(max_epochs=10, random_state=0, **quick))
    model.fit(X_train, y_train)
    assert model.score(X_test, y_test) > 0.845  # a gradient-boosted forest has 0.876
    uncertainty = predict_uncertainty(model, X_test)
    assert np.isfinite(uncertainty).all()
    assert error_detection_auroc(y_test, model.predict(X_test), uncertainty) > 0.72


def test_the_comparison_of_all_methods_runs(tmp_path):
    picture = tmp_path / "picture.png"
    command = [sys.executable, "examples/compare_methods.py", "--output", str(picture)]
    out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert out.returncode == 0, out.stderr
    assert picture.stat().st_size > 1000
    rows = out.stdout.split("\n")[1:7]
    accuracy = [float(row.removeprefix("plain ensemble").split()[-6]) for row in rows]
    assert min(accuracy) > 0.93
