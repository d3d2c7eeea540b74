"""What all estimators share: scikit-learn's contract outside, a skorch net inside."""

from __future__ import annotations

import copy
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from ..modules.losses import MemberCrossEntropy
from ..modules.members import IndependentMembers, MemberList, StackedMembers
from ..modules.mlp import ACTIVATIONS, mlp
from ._data import Rows
from ._device import resolve_device
from ._net import MemberNet
from ._own_network import check_network, own_network
from ._params import SkorchParamsEstimator
from ._prediction import PredictionMixin
from ._progress import Progress
from ._random import Streams, borrowed_global_generator
from ._stopping import Stopping
from ._validation import (
    FLOATS,
    check_hidden_layer_sizes,
    check_training_rows,
)

# skorch parameters that an estimator sets itself.
RESERVED = ("criterion__reduction", "iterator_train__batch_size", "iterator_train__sampler")


@dataclass
class FitContext:
    """What the phases of one fit share."""

    train: Rows
    valid: Rows | None
    n_classes: int
    streams: Streams
    device: torch.device
    progress: Progress


class BaseTorchClassifier(
    PredictionMixin, ClassifierMixin, SkorchParamsEstimator, metaclass=ABCMeta
):
    """Base of all classifiers: parameters, validation, seeds, device and training.

    A subclass gives `_fit_phases`, which trains one or more modules with `_train`, the epochs of
    its phases, and what its uncertainty is. See the class docstrings of the estimators for the
    parameters.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
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
        n_iter_no_change: int = 10,
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
            The fitted estimator. After a Ctrl-C in the main phase, at least one epoch in, it holds
            what it learned until then, with a warning; earlier, the interrupt is passed on.

        Raises
        ------
        ValueError
            For bad data or parameters, with the former fit left as it was; or, with advice, when
            a network of your own does not fit the data or the loss stops being finite, the
            estimator then being unfitted.
        """
        # Whatever mode the caller is in, training needs gradients.
        with torch.inference_mode(False), torch.enable_grad():
            with self._undone_on_error():
                self._validate_params()
                self._check_skorch_params()
                check_hidden_layer_sizes(self.hidden_layer_sizes)
                streams = Streams(check_random_state(self.random_state).randint(2**31 - 1))
                device = resolve_device(self.device)
                train, valid, classes = check_training_rows(
                    self, X, y, sample_weight, X_val, y_val, streams, device
                )
            with (
                self._unfitted_on_error(),
                torch.autocast(device.type, enabled=False),
                self._generator_of_own_code(streams),
                Progress(self._phase_epochs(), disable=not self.verbose) as progress,
            ):
                net = self._fit_phases(
                    FitContext(train, valid, len(classes), streams, device, progress)
                )
                if net.interrupted_ and not net.history:
                    raise KeyboardInterrupt
        if net.interrupted_:
            warnings.warn(
                f"Training interrupted after {len(net.history)} epochs; the model is usable.",
                stacklevel=2,
            )
        self.classes_ = classes
        self.n_iter_ = len(net.history)
        self.uncertainty_units_ = dict(self._uncertainty_units)
        self.uncertainty_kinds_ = tuple(self._uncertainty_units)
        net.row_shape_ = tuple(train.X.shape[1:])
        net.own_seed_ = None if self.module is None else streams.seed("predict")
        self.net_ = net
        return self

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        before = vars(self).copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    @contextmanager
    def _unfitted_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            raise

    def _independent_members(self, fit: FitContext, n_members: int) -> IndependentMembers:
        """Return freshly initialised networks that are trained side by side."""
        networks = [self._network(fit, member) for member in range(n_members)]
        if self.module is None:
            return StackedMembers(networks)
        return MemberList(networks, input_dim=fit.train.X.dim())

    def _network(self, fit: FitContext, member: int = 0) -> nn.Module:
        """Return a fresh network ``(n, *features) -> (n, n_classes)``, initialised for `member`."""
        dtype = FLOATS[self.dtype][1]
        if self.module is not None:
            network = own_network(
                self.module,
                fit.train.X.shape[1],
                fit.n_classes,
                self._prefixed("module"),
                fit.streams.seed("weights", member),
            )
            network.to(fit.device, dtype)
            check_network(network, fit.train.X[:2], fit.n_classes)
            return network
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
        for name in criterion_params:
            if f"criterion__{name}" in params:
                raise ValueError(f"Set {name!r} instead of 'criterion__{name}'.")
        for name in params:
            if name in RESERVED:
                raise ValueError(f"Parameter {name!r} is set by {type(self).__name__} itself.")
        net = MemberNet(
            module,
            criterion=criterion,
            **{f"criterion__{name}": value for name, value in criterion_params.items()},
            optimizer=self.optimizer,
            lr=self.lr,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            train_split=None,
            # Copies, so that no state of a callback goes from one fit to another.
            callbacks=copy.deepcopy(list(self.callbacks or ())),
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

    def _generator_of_own_code(self, streams: Streams) -> Any:
        if self.module is None and not self.callbacks:
            return nullcontext()  # nothing here draws from the global generator
        return borrowed_global_generator(streams.seed("own code"))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "net_")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up a pickled state, on the device that `device` means on this machine."""
        super().__setstate__(state)
        if "net_" not in state:
            return
        try:
            device = resolve_device(self.device)
        except ValueError as error:
            warnings.warn(f"{error} The weights stay on the CPU.", stacklevel=2)
        else:
            self.net_.device = device
            self.module_.to(device)
