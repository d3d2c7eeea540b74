"""What all estimators share: scikit-learn's contract outside, a skorch net inside."""

from __future__ import annotations

import copy
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from ..modules.generators import borrowed_global_generators
from ..modules.losses import MemberLoss
from ..modules.members import IndependentMembers, MemberList, StackedMembers
from ..modules.mlp import ACTIVATIONS, mlp
from ._context import FitContext
from ._device import resolve_device
from ._embedding import feature_embedding
from ._net import MemberNet, NotFiniteError
from ._own_network import check_network, own_network
from ._params import SkorchParamsEstimator, same
from ._prediction import PredictionMixin
from ._progress import Progress
from ._random import Streams
from ._stopping import Stopping
from ._validation import (
    FLOATS,
    check_callbacks,
    check_hidden_layer_sizes,
    check_training_rows,
    check_validation_rows,
    split_off_validation_rows,
)

# skorch parameters that an estimator sets itself, and from what.
RESERVED = {
    "criterion__reduction": "what its members share",
    "iterator_train__batch_size": "'batch_size'",
    "iterator_train__sampler": "'random_state'",
    "optimizer__lr": "'lr' and the learning rates of other phases",
}


class BaseTorchClassifier(
    PredictionMixin, ClassifierMixin, SkorchParamsEstimator, metaclass=ABCMeta
):
    """Base of all classifiers: parameters, validation, seeds, device and training.

    A subclass gives `_fit_phases`, which trains one or more modules with `_train`, the epochs of
    its phases, and what its uncertainty is. See the class docstrings of the estimators for the
    parameters.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "hidden_layer_sizes": "no_validation",  # check_hidden_layer_sizes says more
        "activation": [StrOptions(set(ACTIVATIONS))],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "num_embedding": [None, StrOptions({"auto", "piecewise_linear", "periodic"})],
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
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "callbacks": [None, list, tuple],
    }

    # What the trained module is made of; a subclass adds its own.
    _structural_params: ClassVar[tuple[str, ...]] = (
        "hidden_layer_sizes",
        "activation",
        "dropout",
        "num_embedding",
        "module",
        "dtype",
    )

    def __init__(
        self,
        *,
        hidden_layer_sizes: tuple[int, ...] = (256, 256),
        activation: str = "relu",
        dropout: float = 0.1,
        num_embedding: str | None = "auto",
        module: Any = None,
        max_epochs: int = 200,
        lr: float = 2e-3,
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
        warm_start: bool = False,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
        **skorch_params: Any,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.dropout = dropout
        self.num_embedding = num_embedding
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
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks
        self._set_skorch_params(skorch_params)

    # What a method supplies -----------------------------------------------------------------

    @abstractmethod
    def _fit_phases(self, fit: FitContext) -> MemberNet:
        """Train the method's modules and return the net of the main phase."""

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
        """Train from scratch, or under `warm_start` on from the fitted weights.

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
            what it learned until then, with a warning; at another time the interrupt is passed on.

        Raises
        ------
        ValueError
            For bad data or parameters, a network of your own that does not fit the data, or, with
            advice, a loss that stops being finite. The last leaves the estimator unfitted; any
            other error, and an interrupt that is passed on, leaves the former fit as it was.
        """
        former = self.net_ if self.warm_start and hasattr(self, "net_") else None
        with gradients(), self._undone_on_error():
            self._check_params(former)
            streams = Streams(check_random_state(self.random_state).randint(2**31 - 1))
            device = resolve_device(self.device)
            train, classes, class_weight = check_training_rows(
                self, X, y, sample_weight, device, reset=former is None
            )
            if former is not None and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    "With warm_start=True y must hold the classes of the former fit, "
                    f"{self.classes_.tolist()}; got {classes.tolist()}."
                )
            valid = check_validation_rows(self, X_val, y_val, train, classes, class_weight)
            if valid is None and X_val is None:
                train, valid = split_off_validation_rows(self, train, streams.numpy("split"))
            module = None if former is None else copy.deepcopy(former.module_).to(device)
            with Progress(self._phase_epochs(), disable=not self.verbose) as progress:
                net = self._run(
                    FitContext(train, valid, len(classes), streams, device, progress, module)
                )
        self._keep(net, classes)
        return self

    def _run(self, fit: FitContext) -> MemberNet:
        """Run the phases; put back what training changes outside the estimator."""
        if self.module is None:
            fit.embedding = feature_embedding(self.num_embedding, fit)
        with torch.autocast(fit.device.type, enabled=False), self._generators_of_own_code(fit):
            net = self._fit_phases(fit)
        if net.interrupted_:
            warnings.warn(
                f"Training interrupted after {len(net.history)} epochs; the model is usable.",
                stacklevel=3,
            )
        net.row_shape_ = tuple(fit.train.X.shape[1:])
        net.own_seed_ = fit.streams.seed("predict") if self._has_own_code() else None
        net.structure_ = self._structure()
        net.seed_ = fit.streams.seed_
        return net

    def _keep(self, net: MemberNet, classes: NDArray[Any]) -> None:
        """Set the fitted attributes."""
        self.classes_ = classes
        self.n_iter_ = len(net.history)
        self.uncertainty_units_ = dict(self._uncertainty_units)
        self.uncertainty_kinds_ = tuple(self._uncertainty_units)
        self.net_ = net

    def _check_params(self, former: MemberNet | None) -> None:
        self._validate_params()
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, np.integer | np.bool_) and hasattr(self, name):
                setattr(self, name, value.item())  # an int8 would overflow, np.False_ is not False
        self._check_skorch_params()
        for name, source in RESERVED.items():
            if name in self._skorch_params:
                raise ValueError(
                    f"Parameter {name!r} is set by {type(self).__name__} itself, from {source}."
                )
        if self.module is None and self._prefixed("module"):
            raise ValueError(
                f"{sorted(self._prefixed('module'))} are parameters of a module of one's own; "
                "`module` is None. Use hidden_layer_sizes, activation and dropout."
            )
        check_hidden_layer_sizes(self.hidden_layer_sizes)
        check_callbacks(self.callbacks)
        if former is not None:
            for name, value in self._structure().items():
                if not same(value, former.structure_.get(name)):
                    raise ValueError(
                        f"{name}={value!r}, but the fitted network has {name}="
                        f"{former.structure_.get(name)!r}. To go on from fitted weights, set it "
                        "back; to start anew, clone the estimator or set warm_start=False."
                    )

    def _structure(self) -> dict[str, Any]:
        """Return the parameters that the form of the network depends on."""
        own = {k: v for k, v in self._skorch_params.items() if k.startswith("module__")}
        named = {name: getattr(self, name) for name in self._structural_params}
        return {**named, "hidden_layer_sizes": tuple(self.hidden_layer_sizes), **own}

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """Leave the former fit on an error, and none if training diverged."""
        before = vars(self).copy()
        try:
            yield
        except BaseException as error:
            if isinstance(error, NotFiniteError):
                before = {name: value for name, value in before.items() if name[-1] != "_"}
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _independent_members(self, fit: FitContext, n_members: int) -> IndependentMembers:
        """Return freshly initialised networks that are trained side by side."""
        return self._side_by_side(fit, [self._network(fit, m) for m in range(n_members)])

    def _side_by_side(self, fit: FitContext, networks: list[nn.Module]) -> IndependentMembers:
        """Return plain networks of one architecture as members."""
        if self.module is None:
            return StackedMembers.from_members(cast("list[nn.Sequential]", networks))
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
        return mlp(
            fit.train.X.shape[1],
            fit.n_classes,
            self.hidden_layer_sizes,
            activation=self.activation,
            dropout=self.dropout,
            embedding=fit.embedding,
            generator=fit.streams.torch("weights", member),
            dtype=dtype,
        ).to(fit.device)

    def _train(
        self,
        fit: FitContext,
        phase: str,
        module: nn.Module,
        criterion: type[MemberLoss],
        *,
        lr_name: str = "lr",
        stop_together: bool = True,
        **net_params: Any,
    ) -> MemberNet:
        """Train `module` on the rows of `fit` in a new skorch net and return it.

        `lr_name` is the estimator's parameter that holds the learning rate. `stop_together` says
        that the prediction is the mean over members, whose loss ends training. `net_params` are
        skorch's, such as ``max_epochs`` and ``criterion__threshold``; those of the user are added,
        and the estimator's common parameters are the defaults. A phase with another `optimizer`
        than the user's takes none of the user's parameters. Callbacks are for the main phase:
        others say ``callbacks=None``.
        """
        params = self._net_params({"lr": getattr(self, lr_name), **net_params})
        if fit.single_pass:
            params["max_epochs"] = 1
        net = fit.net
        if net is None or not net.goes_on_with(params, fit.device):
            net = MemberNet.with_params(module, criterion, params, fit)
        stopping = Stopping(
            module, self.n_iter_no_change, self.tol, self.stop_accuracy, stop_together
        )
        return net.fit_phase(fit, phase, stopping, lr_name)

    def _net_params(self, of_phase: dict[str, Any]) -> dict[str, Any]:
        """Return skorch's parameters: the estimator's, those of a phase, and the user's."""
        user: dict[str, Any] = {}
        if "optimizer" not in of_phase:
            user = {k: v for k, v in self._skorch_params.items() if not k.startswith("module__")}
        if "callbacks" in of_phase:
            user = {k: v for k, v in user.items() if not k.startswith("callbacks__")}
        else:
            user["callbacks"] = list(self.callbacks or ())
        for name in user:
            if name.startswith("criterion__") and name in of_phase:
                raise ValueError(f"Set {name.removeprefix('criterion__')!r} instead of {name!r}.")
        return {
            "optimizer": self.optimizer,
            "max_epochs": self.max_epochs,
            "batch_size": self.batch_size,
            "verbose": int(self.verbose > 1),
            **of_phase,
            **user,
        }

    def _prefixed(self, prefix: str) -> dict[str, Any]:
        start = f"{prefix}__"
        return {k[len(start) :]: v for k, v in self._skorch_params.items() if k.startswith(start)}

    def _has_own_code(self) -> bool:
        """Return whether predictions run code of the user's."""
        return self.module is not None

    def _generators_of_own_code(self, fit: FitContext) -> Any:
        if not self._has_own_code() and not self.callbacks:
            return nullcontext()  # nothing here draws from the global generator
        return borrowed_global_generators(fit.streams.seed("own code"))

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


@contextmanager
def gradients() -> Iterator[None]:
    """Compute gradients, whatever mode the caller is in: training needs them."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
