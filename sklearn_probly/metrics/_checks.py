"""What metrics ask of their arguments."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import unique_labels


def check_predictions(
    y_true: ArrayLike, y_pred: ArrayLike, uncertainty: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which predictions are wrong, and the uncertainties."""
    scores = check_uncertainty(uncertainty)
    true, pred = np.asarray(column_or_1d(y_true)), np.asarray(column_or_1d(y_pred))
    check_consistent_length(true, pred, scores)
    unique_labels(true, pred)  # refuses NaN, and strings beside numbers
    return np.asarray(true != pred), scores


def check_uncertainty(uncertainty: ArrayLike, name: str = "uncertainty") -> NDArray[np.float64]:
    """Return uncertainties as float64; they must be finite, one a row."""
    scores = np.asarray(uncertainty, dtype=np.float64)
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(
            f"{name} must have shape (n_samples,) with at least one sample; got shape "
            f"{scores.shape}. Pass one number a row, as predict_uncertainty returns."
        )
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"{name} must be finite; got {scores[row]} at row {row}. Leave such rows out."
        )
    return scores
