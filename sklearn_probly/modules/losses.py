"""Criteria: one loss for each member, and gradients that are known in closed form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

EPS = torch.finfo(torch.float32).eps


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


class MemberSquaredError(MemberLoss):
    """Squared error of each member; its module has one output."""

    def row_loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the squared differences of `output`, ``(n_members, n, 1)``, and `y`."""
        return (output[..., 0] - y).square()

    def accuracy(self, output: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        """Return NaN: a regression has no accuracy."""
        return torch.full(output.shape[:1], torch.nan, dtype=torch.float64, device=output.device)


class AntiRegularizedCrossEntropy(MemberCrossEntropy):
    r"""DARE: cross-entropy minus, where it is low, the mean log squared weight.

    The loss of a member on a batch is :math:`L - g\,w\,R(\theta)` with
    :math:`R = \frac1d \sum_k \log(\theta_k^2 + \epsilon)` over its d trainable numbers and
    :math:`g = 1` where :math:`L \le` `threshold`, else 0 [1]_.

    Parameters
    ----------
    threshold : float, default=0.3
        The batch loss, nats, up to which a member's weights are pushed outward.
    reg_weight : float, default=0.1
        Factor w >= 0 of R; 0 is a plain deep ensemble.
    reduction : {"sum", "mean"}, default="sum"
        As in `MemberCrossEntropy`.
    label_smoothing : float, default=0.0
        As in `MemberCrossEntropy`.

    References
    ----------
    .. [1] A. de Mathelin, F. Deheeger, M. Mougeot, N. Vayatis. "Deep Anti-Regularized Ensembles
       provide reliable out-of-distribution uncertainty quantification". arXiv 2304.04042, 2023.
    """

    def __init__(
        self,
        threshold: float = 0.3,
        reg_weight: float = 0.1,
        reduction: Literal["sum", "mean"] = "sum",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction, label_smoothing)
        self.threshold = threshold
        self.reg_weight = reg_weight

    def add_gradients(self, module: Any, member_loss: Tensor) -> None:
        """Add the gradient of -w R, 2 theta / (theta^2 + eps) / d, where the gate is open.

        `module` is an `IndependentMembers`. Closed form, so that no graph of logarithms is kept,
        and on the device: the gate is a tensor, and no step waits for its value.
        """
        if self.reg_weight == 0:
            return
        parameters = list(module.member_parameters())
        d = sum(p.numel() for p, _ in parameters) / module.n_members
        gate = (member_loss <= self.threshold).to(parameters[0][0]) * (-2 * self.reg_weight / d)
        for parameter, member in parameters:
            theta = parameter.detach()
            scale = gate.view(-1, *[1] * (theta.dim() - 1)) if member is None else gate[member]
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.addcdiv_(theta * scale, theta.square().add_(EPS))


def anti_regularization(parameters: list[Tensor]) -> Tensor:
    """Return R, the mean of log(theta^2 + eps) over all numbers in `parameters`.

    Parameters
    ----------
    parameters : list of Tensor
        The trainable tensors of one member.

    Returns
    -------
    Tensor of shape ()
        Larger for weights further from zero; log eps = -15.94 if all are zero.
    """
    theta = torch.cat([p.reshape(-1) for p in parameters])
    return theta.square().add(EPS).log().mean()
