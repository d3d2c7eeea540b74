"""scikit-learn's side: one public estimator a file."""

from .batch_ensemble import BatchEnsembleClassifier
from .dare import DAREEnsembleClassifier

__all__ = ["BatchEnsembleClassifier", "DAREEnsembleClassifier"]
