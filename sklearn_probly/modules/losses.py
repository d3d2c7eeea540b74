"""Criteria: one loss for each member."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


class MemberLoss(nn.Module, ABC):
    """A loss for each member.

    Parameters
    ----------
    reduction : {"sum", "mean"}, default="mean"
        How the members' losses add up to the number that is differentiated. "sum" for members that
        share no weight: each then gets the gradient of its own loss, as if trained alone.
    """

    def __init__(self, reduction: Literal["sum", "mean"] = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    @abstractmethod
    def row_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each member on each row.

        Parameters
        ----------
        output : Tensor of shape (n_members, n, n_outputs)
            What the module returns.
        y : Tensor of shape (n,) or (n_members, n)
            Targets, shared or each member's own.

        Returns
        -------
        Tensor of shape (n_members, n)
            Losses.
        """

    def accuracy(self, output: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Return the share of each member's rows that it gets right, ``(n_members,)``.

        Rows that the members weight each in its own way count where the weight is not 0.
        """
        right = (output.argmax(-1) == y).to(torch.float64)
        if weight is None or weight.dim() == 1:
            return right.mean(1)
        used = weight > 0
        return (right * used).sum(1) / used.sum(1).clamp(min=1)

    def member_loss(self, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the mean over rows of weight times loss.

        Parameters
        ----------
        output, y : Tensor
            As in `row_loss`.
        weight : Tensor of shape (n,) or (n_members, n), or None
            Row weights of mean 1 over the training set; None is 1 for every row.

        Returns
        -------
        Tensor of shape (n_members,)
            Losses.
        """
        loss = self.row_loss(output, y)
        return (loss if weight is None else loss * weight).mean(1)

    def forward(self, member_loss: Tensor) -> Tensor:
        """Return the sum or mean of the members' losses: what is differentiated."""
        return member_loss.sum() if self.reduction == "sum" else member_loss.mean()

    def add_gradients(self, module: Any, member_loss: Tensor) -> None:
        """Add to ``.grad``, after the backward pass, what is known in closed form: nothing here."""


class MemberCrossEntropy(MemberLoss):
    """Cross-entropy of each member, in nats.

    Parameters
    ----------
    reduction : {"sum", "mean"}, default="mean"
        As in `MemberLoss`.
    label_smoothing : float, default=0.0
        As in `torch.nn.CrossEntropyLoss`; in training only, not in the validation loss.
    """

    def __init__(
        self, reduction: Literal["sum", "mean"] = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"label_smoothing must be in [0, 1]; got {label_smoothing}.")
        self.label_smoothing = label_smoothing

    def row_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropies; `output` are logits and `y` class indices."""
        target = y.expand(output.shape[:2])
        return functional.cross_entropy(
            output.flatten(0, 1),
            target.flatten(),
            reduction="none",
            label_smoothing=self.label_smoothing if self.training else 0.0,
        ).view(target.shape)

    def joint_row_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy of the mean of the members' probabilities, ``(n,)``."""
        log_proba = output.log_softmax(-1).logsumexp(0) - math.log(len(output))
        return -log_proba.gather(-1, y[:, None])[:, 0]


class MemberSquaredError(MemberLoss):
    """Squared error of each member; its module has one output."""

    def row_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the squared differences of `output`, ``(n_members, n, 1)``, and `y`."""
        return (output[..., 0] - y).square()

    def accuracy(self, output: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Return NaN: a regression has no accuracy."""
        return torch.full(output.shape[:1], torch.nan, dtype=torch.float64, device=output.device)
