"""DARE: the loss that pushes the weights of members outward."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from .losses import MemberCrossEntropy

EPS = torch.finfo(torch.float32).eps


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
