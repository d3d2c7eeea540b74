"""What all estimators share: scikit-learn's contract outside, a skorch net inside."""

from __future__ import annotations

import copy
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from ..modules.losses import MemberCrossEntropy
from ..modules.mlp import ACTIVATIONS, mlp
from ._data import Rows, stratified_split
from ._device import resolve_device
from ._net import MemberNet
from ._params import SkorchParamsEstimator
from ._progress import Progress
from ._random import Streams, borrowed_global_generator
from ._stopping import Stopping

# `early_stopping="auto"` holds out validation rows from this many rows on, as in
# HistGradientBoostingClassifier: below it, the rows are worth more as training rows.
AUTO_EARLY_STOPPING_ROWS = 10_000

FLOATS = {"float32": (np.float32, torch.float32), "float64": (np.float64, torch.float64)}


@dataclass
class FitContext:
    """What the phases of one fit share."""

    train: Rows
    valid: Rows | None
    n_classes: int
    streams: Streams
    device: torch.device
    progress: Progress


class BaseTorchClassifier(ClassifierMixin, SkorchParamsEstimator, metaclass=ABCMeta):
    """Base of all classifiers: validation, labels, seeds, device, training and prediction.

    A subclass gives `_fit_phases`, which trains one or more modules with `_train`, the epochs of
    its phases, and what its uncertainty is. See the class docstrings of the estimators for the
    parameters.
    """

    _parameter_constraints: dict[str, Any] = {
        "hidden_layer_sizes": ["array-like"],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "module": [None, callable],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "optimizer": [callable],
        "early_stopping": [StrOptions({"auto"}), "boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "stop_accuracy": [None, Interval(Real, 0, 1, closed="right")],
        "class_weight": [None, dict, StrOptions({"balanced"})],
        "dtype": [StrOptions(set(FLOATS))],
        "device": [str, torch.device],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callbacks": [None, list, tuple],
    }

    # kind -> unit; a subclass says why it does not define one of the three in `_undefined_kinds`.
    _uncertainty_units: dict[str, str]
    _undefined_kinds: dict[str, str] = {}

    net_: MemberNet
    classes_: NDArray[Any]
    n_features_in_: int

    def __init__(
        self,
        *,
        hidden_layer_sizes: tuple[int, ...] = (256, 256),
        activation: str = "relu",
        dropout: float = 0.0,
        module: Any = None,
        max_epochs: int = 100,
        lr: float = 1e-3,
        batch_size: int = 256,
        optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        tol: float = 1e-4,
        stop_accuracy: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        dtype: str = "float32",
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
        **skorch_params: Any,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.dropout = dropout
        self.module = module
        self.max_epochs = max_epochs
        self.lr = lr
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.stop_accuracy = stop_accuracy
        self.class_weight = class_weight
        self.dtype = dtype
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self._set_skorch_params(skorch_params)

    # What a method supplies -----------------------------------------------------------------

    @abstractmethod
    def _fit_phases(self, fit: FitContext) -> MemberNet:
        """Train the method's modules and return the net of the last phase."""

    def _phase_epochs(self) -> int:
        """Return the most epochs of all phases together."""
        return self.max_epochs

    @abstractmethod
    def _predict(self, X: ArrayLike, kind: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return probabilities and the uncertainty of the given kind, in one pass."""

    # Fit --------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> BaseTorchClassifier:
        """Train from scratch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows; with a `module` of one's own also (n_samples, channels, height, width).
        y : array-like of shape (n_samples,)
            Labels of any type, at least two different ones.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0 of the rows. A row of weight 0 is as good as absent.
        X_val, y_val : array-like, default=None
            Rows for early stopping, instead of a part held out of `X`. They turn early stopping
            on unless it is False.

        Returns
        -------
        self
            The fitted estimator. After a Ctrl-C it holds what it learned in the completed epochs
            of the main phase, with a warning.

        Raises
        ------
        ValueError
            For bad data or parameters, with the former fit left as it was; or, with advice, when
            the loss stops being finite, the estimator then being unfitted.
        """
        before = vars(self).copy()
        try:
            self._validate_params()
            self._check_skorch_params()
            self._check_hidden_layer_sizes()
            streams = Streams(check_random_state(self.random_state).randint(2**31 - 1))
            device = resolve_device(self.device)
            train, valid, classes = self._check_training_rows(
                X, y, sample_weight, X_val, y_val, streams, device
            )
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        try:
            # Whatever mode the caller is in, training needs gradients.
            with (
                torch.inference_mode(False),
                torch.enable_grad(),
                self._generator_of_own_module(streams),
                Progress(self._phase_epochs(), disable=not self.verbose) as progress,
            ):
                net = self._fit_phases(
                    FitContext(train, valid, len(classes), streams, device, progress)
                )
                if net.interrupted_ and not net.history:
                    raise KeyboardInterrupt
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            raise
        if net.interrupted_:
            warnings.warn(
                f"Training interrupted after {len(net.history)} epochs; the model is usable.",
                stacklevel=2,
            )
        self.classes_ = classes
        self.n_iter_ = len(net.history)
        self.uncertainty_units_ = dict(self._uncertainty_units)
        self.uncertainty_kinds_ = tuple(self._uncertainty_units)
        self.net_ = net
        return self

    def _check_hidden_layer_sizes(self) -> None:
        for size in self.hidden_layer_sizes:
            if not isinstance(size, Integral) or size < 1:
                raise ValueError(
                    "Each item of hidden_layer_sizes must be an int >= 1; got "
                    f"{size!r} in {self.hidden_layer_sizes!r}."
                )

    def _check_training_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        X_val: Any,
        y_val: Any,
        streams: Streams,
        device: torch.device,
    ) -> tuple[Rows, Rows | None, NDArray[Any]]:
        """Return the training and validation rows on the device, and the classes."""
        numpy_dtype, torch_dtype = FLOATS[self.dtype]
        X, y = validate_data(self, X, y, dtype=numpy_dtype, allow_nd=True, ensure_2d=True)
        self._check_ndim(X)
        check_classification_targets(y)
        classes, encoded = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes in y; got one class, "
                f"{classes.tolist()[0]!r}."
            )
        weight = None
        if sample_weight is not None or self.class_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if (weight < 0).any():
                raise ValueError(f"sample_weight must be >= 0; got {weight.min()}.")
            if self.class_weight is not None:
                weight = weight * compute_sample_weight(self.class_weight, y)
            used = weight > 0
            if not used.any():
                raise ValueError("sample_weight is zero for every row; give a row some weight.")
            if not used.all():
                X, encoded, weight = X[used], encoded[used], weight[used]
            weight = weight / weight.mean()

        def rows(X: Any, encoded: Any, weight: Any) -> Rows:
            return Rows(
                to_tensor(X, numpy_dtype, device),
                torch.from_numpy(encoded.astype(np.int64)).to(device),
                None if weight is None else torch.from_numpy(weight).to(device, torch_dtype),
            )

        train = rows(X, encoded, weight)
        if X_val is not None or y_val is not None:
            if X_val is None or y_val is None:
                raise ValueError("X_val and y_val must be given together; one of them is None.")
            X_val, y_val = validate_data(
                self, X_val, y_val, dtype=numpy_dtype, allow_nd=True, reset=False
            )
            unknown = np.setdiff1d(y_val, classes)
            if len(unknown):
                raise ValueError(f"y_val holds labels that y does not: {unknown.tolist()}.")
            if self.early_stopping is False:
                return train, None, classes
            return train, rows(X_val, np.searchsorted(classes, y_val), None), classes
        if self._stops_early(len(encoded)):
            kept, held_out = stratified_split(
                encoded, self.validation_fraction, streams.numpy("split")
            )
            if not len(held_out):
                raise ValueError(
                    f"early_stopping=True needs a class with two rows or more; n_samples="
                    f"{len(encoded)} and each of the {len(classes)} classes has one row. Set "
                    "early_stopping=False or give X_val and y_val."
                )
            valid = Rows(train.X, train.y, train.weight, torch.from_numpy(held_out).to(device))
            train = Rows(train.X, train.y, train.weight, torch.from_numpy(kept).to(device))
            return train, valid, classes
        return train, None, classes

    def _stops_early(self, n_rows: int) -> bool:
        if self.early_stopping == "auto":
            return n_rows >= AUTO_EARLY_STOPPING_ROWS
        return bool(self.early_stopping)

    def _check_ndim(self, X: NDArray[Any]) -> None:
        if self.module is None and X.ndim != 2:
            raise ValueError(
                f"X has shape {X.shape}, and the default network takes one row of features for "
                "each sample. Flatten with X.reshape(len(X), -1), or give a network for such "
                "input as `module`."
            )

    def _network(self, fit: FitContext, member: int = 0) -> nn.Module:
        """Return a fresh network ``(n, *features) -> (n, n_classes)``, initialised for `member`."""
        dtype = FLOATS[self.dtype][1]
        if self.module is not None:
            return own_network(
                self.module,
                fit.train.X.shape[1],
                fit.n_classes,
                self._prefixed("module"),
                fit.streams.seed("weights", member),
            ).to(dtype)
        if self._prefixed("module"):
            raise ValueError(
                f"{sorted(self._prefixed('module'))} are parameters of a module of one's own; "
                "`module` is None. Use hidden_layer_sizes, activation and dropout."
            )
        return mlp(
            fit.train.X.shape[1],
            fit.n_classes,
            self.hidden_layer_sizes,
            activation=self.activation,
            dropout=self.dropout,
            generator=fit.streams.torch("weights", member),
            dtype=dtype,
        )

    def _train(
        self,
        fit: FitContext,
        phase: str,
        module: nn.Module,
        criterion: type[MemberCrossEntropy],
        **criterion_params: Any,
    ) -> MemberNet:
        """Train `module` in a new skorch net and return it."""
        params = {k: v for k, v in self._skorch_params.items() if not k.startswith("module__")}
        net = MemberNet(
            module,
            criterion=criterion,
            **{f"criterion__{name}": value for name, value in criterion_params.items()},
            optimizer=self.optimizer,
            lr=self.lr,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            train_split=None,
            # Clones, so that no state of a callback goes from one fit to another.
            callbacks=[_fresh(callback) for callback in self.callbacks or ()],
            device=fit.device,
            verbose=int(self.verbose > 1),
            **params,
        )
        net.initialize()
        fit.progress.phase(phase)
        stopping = Stopping(net.module_, self.n_iter_no_change, self.tol, self.stop_accuracy)
        return net.fit_phase(fit.train, fit.valid, fit.streams, stopping, fit.progress)

    def _prefixed(self, prefix: str) -> dict[str, Any]:
        start = f"{prefix}__"
        return {k[len(start) :]: v for k, v in self._skorch_params.items() if k.startswith(start)}

    def _generator_of_own_module(self, streams: Streams) -> Any:
        if self.module is None:
            return nullcontext()
        return borrowed_global_generator(streams.seed("own module"))

    # Predict ----------------------------------------------------------------------------------

    @property
    def module_(self) -> nn.Module:
        """The trained `torch.nn.Module`."""
        return self.net_.module_

    @property
    def history_(self) -> Any:
        """skorch's history of the main phase."""
        return self.net_.history

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels of the dtype of `y` in `fit`.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`; of the type `dtype`.
        """
        return self.predict_with_uncertainty(X)[0]

    def predict_log_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log-probabilities, nats; minus infinity where a probability is 0.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_uncertainty(self, X: ArrayLike, kind: str | None = None) -> NDArray[np.float64]:
        """Return how unsure each prediction is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        kind : {"total", "aleatoric", "epistemic"}, default=None
            What to measure; None is the first of `uncertainty_kinds_`.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            Higher is less sure; the unit is ``uncertainty_units_[kind]``.

        Raises
        ------
        ValueError
            If the method does not define `kind`.
        """
        return self.predict_with_uncertainty(X, kind)[1]

    def predict_with_uncertainty(
        self, X: ArrayLike, kind: str | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return `predict_proba` and `predict_uncertainty` in one pass.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        kind : {"total", "aleatoric", "epistemic"}, default=None
            As in `predict_uncertainty`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Class probabilities.
        uncertainty : ndarray of shape (n_samples,), float64
            Uncertainty.
        """
        check_is_fitted(self)
        if kind is None:
            kind = self.uncertainty_kinds_[0]
        if kind not in self.uncertainty_kinds_:
            reason = self._undefined_kinds.get(kind, "there is no such kind")
            raise ValueError(
                f"kind={kind!r} is not defined for {type(self).__name__}: {reason}. It defines "
                f"{', '.join(map(repr, self.uncertainty_kinds_))}."
            )
        return self._predict(X, kind)

    def _chunks(self, X: ArrayLike) -> Iterator[tuple[slice, Tensor]]:
        """Check `X` and yield the logits ``(n_members, n, n_classes)`` of its chunks of rows.

        Chunks are converted one at a time: no copy of `X` is made.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype="numeric", allow_nd=True, ensure_2d=True, reset=False)
        self._check_ndim(X)
        weights = next(self.module_.parameters())
        numpy_dtype = FLOATS[str(weights.dtype).removeprefix("torch.")][0]
        for start in range(0, len(X), self.batch_size):
            rows = slice(start, min(start + self.batch_size, len(X)))
            with torch.inference_mode():
                x = to_tensor(X[rows], numpy_dtype, weights.device)
                logits = self.module_(x)
                if not bool(logits.isfinite().all()):
                    raise ValueError(
                        "Input X contains infinity or a value too large for the network: the "
                        f"largest |X| among rows {start} to {rows.stop - 1} is "
                        f"{float(np.abs(X[rows]).max()):.3g}. Scale the features."
                    )
            yield rows, logits

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "net_")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with every tensor on the CPU, so that any machine can read it."""
        state = super().__getstate__()
        net = state.get("net_")
        if net is not None and torch.device(net.device).type != "cpu":
            net = copy.deepcopy(net)
            net.set_params(device="cpu")
            net.module_.to("cpu")
            net.optimizer_.state.clear()
            state["net_"] = net
        return state


def to_tensor(X: NDArray[Any], dtype: Any, device: torch.device) -> Tensor:
    """Return `X` as a tensor of the given NumPy dtype; an array that fits is not copied."""
    with np.errstate(over="ignore"):  # an overflow is told from the result
        array = np.ascontiguousarray(X, dtype=dtype)
    if not array.flags.writeable:
        array = array.copy()  # torch warns of memory that it must not write to
    return torch.from_numpy(array).to(device)


def own_network(
    module: Any, n_features: int, n_classes: int, params: dict[str, Any], seed: int
) -> nn.Module:
    """Return a fresh network of the user's, with weights that `seed` determines.

    Parameters
    ----------
    module : type, nn.Module or callable
        A class is called with `params`, an instance is copied and its layers are re-initialised, a
        callable is called with ``n_features`` and ``n_classes``.
    n_features, n_classes : int
        What a callable is told.
    params : dict
        The ``module__...`` parameters.
    seed : int
        Seed of torch's global generator, which the caller has borrowed.
    """
    torch.manual_seed(seed)
    if isinstance(module, nn.Module):
        if params:
            return type(module)(**params)
        network = copy.deepcopy(module)
        for layer in network.modules():
            reset: Callable[[], None] | None = getattr(layer, "reset_parameters", None)
            if reset is not None:
                reset()
            elif any(True for _ in layer.parameters(recurse=False)):
                raise ValueError(
                    f"{type(layer).__name__} has parameters but no reset_parameters(), so it "
                    "cannot be initialised anew for each member; give `module` as a class or a "
                    "callable (n_features, n_classes) instead of an instance."
                )
        return network
    network = module(**params) if isinstance(module, type) else module(n_features, n_classes)
    if not isinstance(network, nn.Module):
        raise TypeError(f"module must give a torch.nn.Module; got {type(network).__name__}.")
    return network


def _fresh(callback: Any) -> Any:
    if isinstance(callback, tuple):  # (name, callback)
        return callback[0], clone(callback[1], safe=False)
    return callback if isinstance(callback, type) else clone(callback, safe=False)
