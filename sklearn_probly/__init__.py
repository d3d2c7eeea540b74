"""scikit-learn classifiers in torch that also say how sure they are."""

from . import measures, metrics
from .estimators import (
    BatchEnsembleClassifier,
    DAREEnsembleClassifier,
    DEUPClassifier,
    HetNetClassifier,
    MasksemblesClassifier,
)
from .uncertainty import cross_val_uncertainty, predict_uncertainty

__version__ = "0.1.0.dev0"

__all__ = [
    "BatchEnsembleClassifier",
    "DAREEnsembleClassifier",
    "DEUPClassifier",
    "HetNetClassifier",
    "MasksemblesClassifier",
    "cross_val_uncertainty",
    "measures",
    "metrics",
    "predict_uncertainty",
]
