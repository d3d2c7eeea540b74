"""From what the user gives to tensors on the device, with clear errors at the door."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data
from skorch.callbacks import Callback
from torch import Tensor

from ._data import Rows, stratified_split

# `early_stopping="auto"` holds out validation rows from this many rows on: below it, the rows are
# worth more as training rows.
AUTO_EARLY_STOPPING_ROWS = 500

FLOATS = {"float32": (np.float32, torch.float32), "float64": (np.float64, torch.float64)}


def check_hidden_layer_sizes(sizes: Any) -> None:
    """Raise ValueError unless there is a sequence of widths, each an int >= 1."""
    sequence = isinstance(sizes, Sequence) and not isinstance(sizes, str | bytes)
    if not sequence and np.ndim(sizes) != 1:
        hint = f" Use ({sizes},) for one hidden layer." if isinstance(sizes, Integral) else ""
        raise ValueError(f"hidden_layer_sizes must be a sequence of ints; got {sizes!r}.{hint}")
    for size in sizes:
        if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
            raise ValueError(
                f"Each item of hidden_layer_sizes must be an int >= 1; got {size!r} in {sizes!r}."
            )


def check_callbacks(callbacks: Iterable[Any] | None) -> None:
    """Raise ValueError unless each item is what skorch takes as a callback."""
    for item in callbacks or ():
        named = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
        callback = item[1] if named else item
        if not isinstance(callback, Callback) and not (
            isinstance(callback, type) and issubclass(callback, Callback)
        ):
            raise ValueError(
                "Each item of callbacks must be a skorch.callbacks.Callback or a pair (name, "
                f"callback); got {item!r}. Make a subclass of Callback with a method such as "
                "on_epoch_end."
            )


def check_training_rows(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    device: torch.device,
    *,
    classes: NDArray[Any] | None = None,
    reset: bool = True,
) -> tuple[Rows, NDArray[Any], NDArray[np.float64] | None]:
    """Return the training rows on the device, the classes, and the weight of each class if any.

    With `classes`, sorted, labels may be any of them; without, they are those of `y`. `reset` is
    that of `sklearn.utils.validation.validate_data`.
    """
    numpy_dtype, torch_dtype = FLOATS[estimator.dtype]
    with np.errstate(under="ignore"):
        X, y = validate_data(estimator, X, y, dtype=numpy_dtype, allow_nd=True, reset=reset)
    if not reset:
        check_row_shape(X, estimator.net_.row_shape_)
    if estimator.module is None:
        check_ndim(X)
    check_classification_targets(y)
    partial = classes is not None
    if classes is None:
        classes, encoded = np.unique(y, return_inverse=True)
    else:
        encoded = encode(y, classes, "y")
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs at least two classes in y; got one class, "
            f"{classes.tolist()[0]!r}."
        )
    weight = class_weight = None
    if sample_weight is not None or estimator.class_weight is not None:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError(f"sample_weight must be >= 0; got {weight.min()}.")
        if weight.any():  # as shares of the largest, so that their sum cannot overflow
            weight = weight / weight.max()
            weight[weight.astype(numpy_dtype) == 0] = 0  # as they will be in training
        mean = weight[weight > 0].mean() if weight.any() else 1.0  # of what partial_fit is given
        if estimator.class_weight is not None:
            class_weight = weights_of_classes(estimator.class_weight, classes, encoded, weight)
            if not partial:
                class_weight /= max(class_weight.max(), 1e-300)
            weight = weight * class_weight[encoded]
        used = weight > 0
        if not used.any():
            raise ValueError("sample_weight is zero for every row; give a row some weight.")
        if not used.all():
            X, encoded, weight = X[used], encoded[used], weight[used]
        if not partial:
            mean = weight.mean()
        weight = torch.from_numpy(weight / mean).to(device, torch_dtype)
    rows = Rows(to_tensor(X, numpy_dtype, device), to_labels(encoded, device), weight)
    return rows, classes, class_weight


def weights_of_classes(
    spec: Any, classes: NDArray[Any], encoded: NDArray[Any], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weight of each class: that of a dict, or inverse to its share of `weight`."""
    if spec == "balanced":
        total = np.bincount(encoded, weight, len(classes))
        return weight.sum() / len(classes) / np.where(total > 0, total, np.inf)
    values = compute_class_weight(spec, classes=classes, y=classes[encoded])
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"class_weight must hold finite numbers >= 0; got {spec!r}.")
    return values


def check_validation_rows(
    estimator: Any,
    X_val: Any,
    y_val: Any,
    train: Rows,
    classes: NDArray[Any],
    class_weight: NDArray[np.float64] | None,
) -> Rows | None:
    """Return the user's own validation rows, None if there are none or they are not to be used.

    They are weighted by class as the training rows are.
    """
    if X_val is None and y_val is None:
        return None
    if X_val is None or y_val is None:
        raise ValueError("X_val and y_val must be given together; one of them is None.")
    numpy_dtype = FLOATS[estimator.dtype][0]
    with np.errstate(under="ignore"):
        X_val, y_val = validate_data(
            estimator, X_val, y_val, dtype=numpy_dtype, allow_nd=True, reset=False
        )
    if X_val.shape[1:] != train.X.shape[1:]:
        raise ValueError(
            f"Rows of X_val have shape {X_val.shape[1:]}, those of X have "
            f"{tuple(train.X.shape[1:])}; they must be the same."
        )
    encoded = encode(y_val, classes, "y_val")
    if estimator.early_stopping is False:
        return None
    device = train.X.device
    weight = None
    if class_weight is not None and class_weight[encoded].any():
        weight = torch.from_numpy(class_weight[encoded]).to(train.X)
    return Rows(to_tensor(X_val, numpy_dtype, device), to_labels(encoded, device), weight)


def split_off_validation_rows(
    estimator: Any, train: Rows, rng: np.random.Generator
) -> tuple[Rows, Rows | None]:
    """Return training and validation rows, the latter None if training does not stop early."""
    early_stopping = estimator.early_stopping
    if early_stopping == "auto":
        early_stopping = len(train) >= AUTO_EARLY_STOPPING_ROWS
    if not early_stopping:
        return train, None
    kept, held_out = stratified_split(train.y.cpu().numpy(), estimator.validation_fraction, rng)
    if not len(held_out):
        raise ValueError(
            f"early_stopping=True needs a class with two rows or more; n_samples={len(train)} and "
            "each class has one row of weight above 0, or none. Set early_stopping=False or give "
            "X_val and y_val."
        )
    device = train.X.device
    return train.subset(torch.from_numpy(kept).to(device)), train.subset(
        torch.from_numpy(held_out).to(device)
    )


def encode(y: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the position of each label in the sorted `classes`."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"{name} holds labels that are not among the classes {classes.tolist()}: "
            f"{unknown.tolist()}."
        )
    return np.searchsorted(classes, y)


def to_labels(encoded: NDArray[Any], device: torch.device) -> Tensor:
    """Return class indices as torch wants them."""
    return torch.from_numpy(encoded.astype(np.int64)).to(device)


def check_ndim(X: NDArray[Any]) -> None:
    """Raise ValueError, with advice, for images where the default network wants flat rows."""
    if X.ndim != 2:
        raise ValueError(
            f"X has shape {X.shape}, and the default network takes one row of features for "
            "each sample. Flatten with X.reshape(len(X), -1), or give a network for such "
            "input as `module`."
        )


def check_row_shape(X: NDArray[Any], expected: tuple[int, ...]) -> None:
    """Raise ValueError unless rows have the shape that they had in `fit`."""
    if X.shape[1:] != expected:
        if len(expected) == 1:
            check_ndim(X)
        raise ValueError(f"Rows of X have shape {X.shape[1:]}; in fit they had {expected}.")


def to_tensor(X: NDArray[Any], dtype: Any, device: torch.device) -> Tensor:
    """Return `X` as a tensor of the given NumPy dtype; an array that fits is not copied."""
    with np.errstate(over="ignore", under="ignore"):  # an overflow is told from the result
        array = np.ascontiguousarray(X, dtype=dtype)
    if not array.flags.writeable:
        array = array.copy()  # torch warns of memory that it must not write to
    return torch.from_numpy(array).to(device)
