"""When each member stops, and the weights it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from ..modules.members import IndependentMembers


def trained_states(module: nn.Module) -> list[list[Tensor]]:
    """Return the tensors of each part that is trained, and stops, for itself.

    Independent members are one part each; members that share weights are one part together.
    """
    if isinstance(module, IndependentMembers):
        return module.member_states()
    return [[t.detach() for t in (*module.parameters(), *module.buffers())]]


@dataclass
class Stopping:
    """Early stopping for each part of a module by itself.

    A part that has stopped may be trained on with the others; `restore` puts its kept weights back.

    Parameters
    ----------
    module : nn.Module
        What is trained.
    patience : int
        Epochs without gain after which a part stops.
    tol : float
        Least gain in validation loss, nats, that counts.
    accuracy : float or None
        Running training accuracy at which a part stops.
    together : bool, default=True
        Whether validation is of the mean of the members' probabilities, which gains from members
        that fit more closely than is best for each alone; else each part has its own.
    """

    module: nn.Module
    patience: int
    tol: float
    accuracy: float | None
    together: bool = True
    active: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self._states = trained_states(self.module)
        n_parts = len(self._states)
        self._kept: list[list[Tensor] | None] = [None] * n_parts
        self.active = np.ones(n_parts, dtype=bool)
        self._best = np.full(n_parts, np.inf)
        self._bar = np.full(n_parts, np.inf)
        self._waited = np.zeros(n_parts, dtype=int)

    def update(self, valid_loss: np.ndarray | None, train_accuracy: np.ndarray) -> None:
        """Take in one epoch.

        Parameters
        ----------
        valid_loss : ndarray of shape (n_members,) or None
            Validation loss of each member, or for each that of all; None without such rows.
        train_accuracy : ndarray of shape (n_members,)
            Running training accuracy of each member.
        """
        for part in np.flatnonzero(self.active).tolist():
            if valid_loss is not None:
                loss = self._of_part(valid_loss, part)
                if loss < self._best[part]:
                    self._best[part] = loss
                    self._keep(part)
                if loss < self._bar[part] - self.tol:
                    self._bar[part], self._waited[part] = loss, 0
                else:
                    self._waited[part] += 1
            reached = (
                self.accuracy is not None and self._of_part(train_accuracy, part) >= self.accuracy
            )
            if reached or self._waited[part] >= self.patience:
                self.active[part] = False
                if self._kept[part] is None:
                    self._keep(part)

    def all_finite(self, loss: np.ndarray) -> bool:
        """Return whether the losses are finite; what a part that has stopped does is not kept."""
        if len(self.active) == len(loss) > 1:
            loss = loss[self.active]
        return bool(np.isfinite(loss).all())

    def restore(self) -> None:
        """Give each part the weights that it keeps."""
        with torch.no_grad():
            for state, kept in zip(self._states, self._kept, strict=True):
                for tensor, value in zip(state, kept or state, strict=True):
                    if tensor is not value:
                        tensor.copy_(value)

    def _keep(self, part: int) -> None:
        self._kept[part] = [tensor.clone() for tensor in self._states[part]]

    def _of_part(self, values: np.ndarray, part: int) -> float:
        return float(values.mean() if len(self._states) == 1 else values[part])
