"""The skorch net inside every estimator: skorch's loop, at the speed of a bare one."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from skorch import NeuralNet
from skorch.callbacks import Callback, EpochTimer, PassthroughScoring, PrintLog
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

from ..modules.losses import MemberLoss
from ..modules.members import IndependentMembers
from ..modules.mlp import Stochastic
from ._context import FitContext
from ._data import Batch, Batches, BatchSampler, Rows
from ._params import same
from ._random import Streams
from ._stopping import Stopping

# Validation needs no gradients, so more rows fit in the same memory.
EVALUATION_ROWS = 1024


class NotFiniteError(ValueError):
    """A loss or a weight stopped being finite in training."""


class MemberNet(ClassifierMixin, NeuralNet):
    """skorch's net for member-wise modules.

    What differs from `skorch.NeuralNet`: batches are whole tensors; there is a loss for each
    member, read from the device once an epoch (once a batch only if a callback listens to
    batches); each independent member stops for itself and keeps its best weights; a loss that is
    not finite is an error.

    The history holds for each epoch ``train_loss`` and ``train_accuracy`` (nats; means over the
    members), ``valid_loss`` (nats; of the mean of their probabilities) and, for each member,
    ``member_train_loss``, ``member_train_accuracy``, ``member_valid_loss`` and ``member_active``.
    """

    @property
    def _default_callbacks(self) -> list[tuple[str, Callback]]:
        callbacks: list[tuple[str, Callback]] = [("epoch_timer", EpochTimer())]
        if self.verbose:  # a silent PrintLog formats its table all the same
            ignored = [f"member_{key}" for key in (*MEMBER_KEYS, "active")]
            callbacks.append(("print_log", PrintLog(keys_ignored=ignored)))
        return callbacks

    @classmethod
    def with_params(
        cls, module: nn.Module, criterion: type[MemberLoss], params: dict[str, Any], fit: FitContext
    ) -> MemberNet:
        """Return an initialised net that trains `module` itself, not a copy.

        Callbacks are copied, so that no state of theirs goes from one fit to another.
        """
        net = cls(
            module,
            criterion=criterion,
            train_split=None,
            device=fit.device,
            **{**params, "callbacks": copy.deepcopy(params.get("callbacks"))},
        ).initialize()
        net.made_with_ = params
        net.n_classes_ = fit.n_classes
        if fit.net is not None:
            net.history = fit.net.history
        return net

    def goes_on_with(self, params: dict[str, Any], device: torch.device) -> bool:
        """Return whether optimizer and callbacks are those of `params`; if so, set `max_epochs`."""
        if not hasattr(self, "optimizer_") or torch.device(self.device) != device:
            return False
        self.max_epochs = params["max_epochs"]
        return self.made_with_.keys() == params.keys() and all(
            same(value, params[name])
            for name, value in self.made_with_.items()
            if name != "max_epochs"
        )

    def replace_module(self, module: nn.Module) -> None:
        """Put `module`, made from what was trained, in the place of what was trained."""
        self.__dict__.update(module=module, module_=module)  # skorch would initialise it anew

    def fit_phase(
        self, fit: FitContext, phase: str, stopping: Stopping, lr_name: str = "lr"
    ) -> MemberNet:
        """Train the initialised net; after a Ctrl-C, an epoch or more in, `interrupted_` is True.

        Raises
        ------
        NotFiniteError
            If the loss or a weight stops being finite; `lr_name` is what to lower.
        """
        self.interrupted_ = False
        self._listened = self._has_batch_listeners()
        generator = fit.streams.torch(phase, "noise", device=fit.device)
        stochastic = [m for m in self.module_.modules() if isinstance(m, Stochastic)]
        for layer in stochastic:
            layer.generator = generator
        fit.progress.phase(phase)
        self.notify("on_train_begin", X=fit.train.X, y=fit.train.y)
        try:
            self._run_epochs(fit, phase, stopping, lr_name)
        except BaseException as error:
            if self.history and "member_active" not in self.history[-1]:
                del self.history[-1]  # the epoch that was cut short
            if not isinstance(error, KeyboardInterrupt) or not self.history:
                raise
            self.interrupted_ = True
        finally:
            stopping.restore()
            self.module_.eval()
            for layer in stochastic:
                layer.generator = None
        for name, parameter in self.module_.named_parameters():
            if not bool(parameter.isfinite().all()):
                what, epoch = f"weight {name!r}", len(self.history)
                raise _not_finite(what, epoch, fit.train.X, lr_name)
        self.notify("on_train_end", X=fit.train.X, y=fit.train.y)
        return self

    def _run_epochs(self, fit: FitContext, phase: str, stopping: Stopping, lr_name: str) -> None:
        batches = self._batches(fit.train, fit.streams, phase)
        datasets = {"dataset_train": fit.train, "dataset_valid": fit.valid}
        for _ in range(self.max_epochs):
            self.notify("on_epoch_begin", **datasets)
            loss, accuracy = self._train_epoch(batches)
            epoch = self.history[-1]["epoch"]
            if not stopping.all_finite(loss):
                raise _not_finite("training loss", epoch, fit.train.X, lr_name)
            self._record("train_loss", loss)
            self._record("train_accuracy", accuracy)
            valid_loss = None
            if fit.valid is not None:
                valid_loss, joint_loss = self._evaluate(fit.valid)
                if not stopping.all_finite(valid_loss):
                    what = "validation loss"
                    raise _not_finite(what, epoch, fit.valid.X, lr_name)
                if stopping.together:
                    self._record("valid_loss", valid_loss, joint_loss)
                    valid_loss = np.full_like(valid_loss, joint_loss)
                else:
                    self._record("valid_loss", valid_loss)
            stopping.update(valid_loss, accuracy)
            self.history.record("member_active", stopping.active.tolist())
            fit.progress.epoch(float(loss.mean()), float(accuracy.mean()))
            try:
                self.notify("on_epoch_end", **datasets)
            except KeyboardInterrupt:  # how skorch's callbacks ask for the end of training
                return
            if not stopping.active.any():
                return

    def _train_epoch(self, batches: Iterable[Batch]) -> tuple[np.ndarray, np.ndarray]:
        """Train for one pass; return the loss and the running accuracy of each member."""
        self._set_training(True)
        loss_sum: Any = 0
        right: Any = 0
        n_rows = 0
        for batch in batches:
            if self._listened:
                self.notify("on_batch_begin", batch=_flat(batch), training=True)
            step = self.train_step(batch)
            output, (y, weight) = step["y_pred"], batch[1]
            rows = y.shape[-1]
            loss_sum = loss_sum + step["member_loss"] * rows
            right = right + self.criterion_.accuracy(output, y, weight) * rows
            n_rows += rows
            if self._listened:
                self._end_batch(batch, step["loss"], output, training=True)
        if not self._listened:  # skorch's checkpoints look at the last batch
            self.history.new_batch()
            self.history.record_batch("train_batch_size", rows)
        sums = torch.stack([loss_sum.double(), right]) / n_rows
        return tuple(sums.cpu().numpy())

    def train_step_single(self, batch: Batch, **fit_params: Any) -> dict[str, Tensor]:
        """Compute loss and gradients of one batch; skorch's `train_step` does the rest."""
        X, (y, weight) = batch
        output = self.module_(X)
        member_loss = self.criterion_.member_loss(output, y, weight)
        loss = self.criterion_(member_loss)
        loss.backward()
        member_loss = member_loss.detach()
        self.criterion_.add_gradients(self.module_, member_loss)
        return {"loss": loss.detach(), "y_pred": output.detach(), "member_loss": member_loss}

    def _evaluate(self, rows: Rows) -> tuple[np.ndarray, float]:
        """Return the loss of each member and that of all together, weighted if the rows are."""
        self._set_training(False)
        module = self.module_.for_prediction()
        total: Any = 0
        weight_sum: Any = 0
        with torch.no_grad():
            for position in torch.arange(len(rows), device=rows.X.device).split(EVALUATION_ROWS):
                batch = X, (y, weight) = rows[position]
                if self._listened:
                    self.notify("on_batch_begin", batch=_flat(batch), training=False)
                output = module(X)
                loss = self.criterion_.row_loss(output.double(), y)
                joint = self.criterion_.joint_row_loss(output.double(), y)
                loss = torch.cat([loss, joint[None]])
                total = total + (loss if weight is None else loss * weight).sum(-1)
                weight_sum = weight_sum + (len(y) if weight is None else weight.sum())
                if self._listened:
                    self._end_batch(batch, loss.mean(), output, training=False)
        losses = (total / weight_sum).cpu().numpy()
        return losses[:-1], float(losses[-1])

    def _end_batch(self, batch: Batch, loss: Tensor, output: Tensor, training: bool) -> None:
        """Tell callbacks that listen to batches, in skorch's terms."""
        kind = "train" if training else "valid"
        self.history.record_batch(f"{kind}_loss", loss.item())
        self.history.record_batch(f"{kind}_batch_size", batch[1][0].shape[-1])
        if batch[1][0].dim() == 2:  # each member has rows of its own: they are all rows of one
            output = output.flatten(0, 1)[None]
        self.notify("on_batch_end", batch=_flat(batch), training=training, loss=loss, y_pred=output)

    # Predictions, for callbacks and for who uses the net alone --------------------------------

    def forward_iter(self, X: Any, training: bool = False, device: Any = "cpu") -> Iterator[Tensor]:
        """Yield the logits ``(n_members, n, n_classes)`` of chunks of `X`, an array or a `Rows`."""
        parameter = next(self.module_.parameters())
        rows = torch.as_tensor(X.all().X if isinstance(X, Rows) else X)
        self._set_training(training)
        for chunk in rows.split(EVALUATION_ROWS):
            with torch.set_grad_enabled(training):
                yield self.module_(chunk.to(parameter)).to(device)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the mean over members of their class probabilities."""
        chunks = [logits.softmax(-1).mean(0) for logits in self.forward_iter(X)]
        return torch.cat(chunks).cpu().numpy()

    def predict(self, X: Any) -> np.ndarray:
        """Return the indices of the most probable classes."""
        return self.predict_proba(X).argmax(1)

    @property
    def classes_(self) -> np.ndarray:
        """Class indices, as scikit-learn's scorers look for them."""
        return np.arange(self.n_classes_)

    def _batches(self, rows: Rows, streams: Streams, phase: str) -> Iterable[Batch]:
        """Return the batches of the epochs of a phase.

        `torch.utils.data.DataLoader` is used only when a parameter ``iterator_train__...`` asks
        for it; it then loads whole batches too.
        """
        # Members whose rows are weighted differently share their batches, which copies no rows.
        own_orders = isinstance(self.module_, IndependentMembers) and (
            rows.weight is None or rows.weight.dim() == 1
        )
        generators = [
            streams.torch(phase, "batches", member)
            for member in range(self.module_.n_members if own_orders else 1)
        ]
        kwargs = self.get_params_for("iterator_train")
        sampler = BatchSampler(
            len(rows),
            self.batch_size,
            generators,
            rows.X.device,
            shuffle=kwargs.pop("shuffle", True),
            drop_last=kwargs.pop("drop_last", False),
            least=2 if any(isinstance(m, _BatchNorm) for m in self.module_.modules()) else 1,
        )
        if not kwargs:
            return Batches(rows, sampler)
        with _unknown_names_are_value_errors("iterator_train"):
            return DataLoader(
                rows,
                sampler=sampler,
                batch_size=None,
                generator=streams.torch(phase, "loader"),
                **kwargs,
            )

    def initialize_optimizer(self, triggered_directly: Any = None) -> MemberNet:
        """Create the optimizer, fused into one kernel where torch has that."""
        parameters = list(self.get_all_learnable_params())
        with _unknown_names_are_value_errors("optimizer"):
            args, kwargs = self.get_params_for_optimizer("optimizer", parameters)
            # These choose an implementation themselves.
            chosen = {"fused", "foreach", "capturable", "differentiable"} & kwargs.keys()
            has_fused = "fused" in inspect.signature(self.optimizer).parameters
            if has_fused and not chosen and parameters[0][1].device.type in ("cpu", "cuda"):
                kwargs["fused"] = True
            self.optimizer_ = self.optimizer(*args, **kwargs)
        if not isinstance(self.optimizer_, torch.optim.Optimizer):
            raise ValueError(
                "optimizer must be a torch.optim.Optimizer class; "
                f"{self.optimizer!r} made a {type(self.optimizer_).__name__}."
            )
        return self

    def initialize_criterion(self) -> MemberNet:
        """Create the criterion."""
        with _unknown_names_are_value_errors("criterion"):
            return super().initialize_criterion()

    def initialize_callbacks(self) -> MemberNet:
        """Create the callbacks; a parameter of one that is not there is an error."""
        super().initialize_callbacks()
        names = {name for name, _ in self._uniquely_named_callbacks()}
        for key in vars(self):
            if key.startswith("callbacks__") and key.split("__")[1] not in names:
                raise ValueError(
                    f"Parameter {key!r} names no callback; there are {', '.join(sorted(names))}."
                )
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return what predicts, on the CPU, so that any machine can read it; no optimizer."""
        left_out = ("optimizer_", "made_with_")
        state = {key: value for key, value in vars(self).items() if key not in left_out}
        if "module_" in state and torch.device(self.device).type != "cpu":
            state["module_"] = copy.deepcopy(self.module_).cpu()
            state["criterion_"] = copy.deepcopy(self.criterion_).cpu()
        if "module_" in state:
            state["module"] = state["module_"]  # skorch keeps the one it was given, too
        state["device"] = "cpu"
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up the state; skorch's own way depends on its version and torch's."""
        self.__dict__.update(state)
        if torch.is_inference_mode_enabled() and "module_" in state:
            _make_trainable_again(self.module_)

    def _has_batch_listeners(self) -> bool:
        return any(
            isinstance(callback, PassthroughScoring)
            or getattr(type(callback), hook, None) is not getattr(Callback, hook)
            for _, callback in self.callbacks_
            for hook in ("on_batch_begin", "on_batch_end")
        )

    def _record(self, key: str, values: np.ndarray, value: float | None = None) -> None:
        """Record the members' values and, under `key`, that of all: their mean if not given."""
        value = float(values.mean()) if value is None else value
        self.history.record(key, value)
        if key.endswith("loss"):  # as skorch does, for its checkpoints
            former = [epoch[key] for epoch in self.history[:-1]]
            self.history.record(f"{key}_best", bool(value < min(former, default=np.inf)))
        self.history.record(f"member_{key}", values.tolist())


MEMBER_KEYS = ("train_loss", "train_accuracy", "valid_loss")


def _make_trainable_again(module: nn.Module) -> None:
    """Replace the tensors that were made in inference mode, which cannot be trained."""
    made: dict[int, Tensor] = {}
    with torch.inference_mode(False):
        for layer in module.modules():
            for name, parameter in layer.named_parameters(recurse=False):
                new = nn.Parameter(parameter.clone(), parameter.requires_grad)
                setattr(layer, name, made.setdefault(id(parameter), new))
            for name, buffer in layer.named_buffers(recurse=False):
                setattr(layer, name, made.setdefault(id(buffer), buffer.clone()))


def _flat(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return a batch as skorch's callbacks know it, ``(X, y)``."""
    X, (y, _) = batch
    return X, y.flatten()


@contextmanager
def _unknown_names_are_value_errors(prefix: str) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise ValueError(f"A parameter '{prefix}__...' is not accepted: {error}") from error


def _not_finite(what: str, epoch: int, X: Tensor, lr_name: str) -> NotFiniteError:
    return NotFiniteError(
        f"The {what} is not finite after epoch {epoch}; the largest |X| is "
        f"{float(X.abs().max()):.3g}. Scale the features, for example with StandardScaler, or "
        f"lower {lr_name}."
    )
