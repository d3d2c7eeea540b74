"""scikit-learn's side: one public estimator a file."""

from .dare import DAREEnsembleClassifier

__all__ = ["DAREEnsembleClassifier"]
