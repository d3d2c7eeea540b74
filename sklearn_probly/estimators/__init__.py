"""scikit-learn's side: one public estimator a file."""

from .batch_ensemble import BatchEnsembleClassifier
from .dare import DAREEnsembleClassifier
from .deup import DEUPClassifier
from .hetnet import HetNetClassifier
from .masksembles import MasksemblesClassifier

__all__ = [
    "BatchEnsembleClassifier",
    "DAREEnsembleClassifier",
    "DEUPClassifier",
    "HetNetClassifier",
    "MasksemblesClassifier",
]
