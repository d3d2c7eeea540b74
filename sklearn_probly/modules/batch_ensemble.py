"""BatchEnsemble: members that share each weight matrix and differ by factors of rank one."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .conversion import check_converted, convert_layers, plain_layers, split_embedding
from .members import MemberwiseModule, StackedLinear, StackedMembers, batched_linear


class Scaling(NamedTuple):
    """How the factors of a layer start.

    Attributes
    ----------
    kind : {"normal", "random_sign", "tabm"}
        "normal": r ~ N(r_mean, r_std^2) and s ~ N(s_mean, s_std^2). "random_sign": all are +-1, as
        in the paper. "tabm": r of the first layer is +-1, all others are 1.
    r_mean, r_std, s_mean, s_std : float
        Of the normal law.
    """

    kind: str = "normal"
    r_mean: float = 1.0
    r_std: float = 0.5
    s_mean: float = 1.0
    s_std: float = 0.5

    def draw(
        self,
        layer: nn.Linear | nn.Conv2d,
        n_members: int,
        position: int,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return the first r, ``(n_members, in)``, and s, ``(n_members, out)``, of a layer."""
        weight = layer.weight
        n_in = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
        shapes = [n_members, int(n_in)], [n_members, len(weight)]
        # Drawn on the CPU, so that every device starts from the same factors.
        if self.kind == "normal":
            r, s = (torch.randn(shape, generator=generator, dtype=weight.dtype) for shape in shapes)
            r, s = r * self.r_std + self.r_mean, s * self.s_std + self.s_mean
        else:
            r, s = (
                torch.randint(2, shape, generator=generator).to(weight.dtype) * 2 - 1
                for shape in shapes
            )
            if self.kind == "tabm":
                r, s = (r if position == 0 else torch.ones_like(r)), torch.ones_like(s)
        return r.to(weight.device), s.to(weight.device)


class BatchEnsembleLinear(nn.Module):
    r"""A linear layer whose weight for member i is :math:`diag(s_i) W diag(r_i)` [1]_.

    Rows come member after member: rows ``i n`` to ``(i + 1) n - 1`` are those of member i.

    Parameters
    ----------
    weight : Tensor of shape (out_features, in_features)
        W, shared.
    bias : Tensor of shape (n_members, out_features) or None
        One bias for each member.
    r : Tensor of shape (n_members, in_features)
        Factors of the inputs.
    s : Tensor of shape (n_members, out_features)
        Factors of the outputs.

    References
    ----------
    .. [1] Y. Wen, D. Tran, J. Ba. "BatchEnsemble: An Alternative Approach to Efficient Ensemble
       and Lifelong Learning". ICLR 2020, arXiv 2002.06715.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, r: Tensor, s: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.r = nn.Parameter(r)
        self.s = nn.Parameter(s)

    @classmethod
    def from_linear(cls, layer: nn.Linear, r: Tensor, s: Tensor) -> BatchEnsembleLinear:
        """Return `layer` with factors; its weight and bias are copied, frozen if they were."""
        scaled = cls(layer.weight.detach().clone(), _repeated_bias(layer, len(r)), r, s)
        scaled.weight.requires_grad_(layer.weight.requires_grad)
        return _bias_frozen_as_in(layer, scaled)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n_members * n, ..., in_features)`` to ``(n_members * n, ..., out_features)``."""
        # The product with merged weights is cheaper than scaling inputs and outputs from
        # in out / (in + out) rows on, and the first layer needs no gradient of its inputs.
        rows = x.reshape(len(self.r), -1, x.shape[-1])
        out = batched_linear(rows, self.merged_weight(), self.bias)
        return out.reshape(*x.shape[:-1], -1)

    def merged_weight(self) -> Tensor:
        """Return each member's weight, transposed: ``(n_members, in_features, out_features)``."""
        return (self.weight * self.s[:, :, None] * self.r[:, None, :]).mT

    def merged(self) -> StackedLinear:
        """Return the members' layers with their factors multiplied in."""
        bias = None if self.bias is None else self.bias.detach()
        return StackedLinear(self.merged_weight().detach(), bias)

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets."""
        out_features, in_features = self.weight.shape
        return f"n_members={len(self.r)}, in_features={in_features}, out_features={out_features}"


class BatchEnsembleConv2d(nn.Module):
    """A convolution whose input and output channels each member scales by factors of its own.

    Rows come member after member, as in `BatchEnsembleLinear`.

    Parameters
    ----------
    conv : torch.nn.Conv2d
        The shared convolution; it is used without its bias.
    bias : Tensor of shape (n_members, out_channels) or None
        One bias for each member.
    r : Tensor of shape (n_members, in_channels)
        Factors of the input channels.
    s : Tensor of shape (n_members, out_channels)
        Factors of the output channels.
    """

    def __init__(self, conv: nn.Conv2d, bias: Tensor | None, r: Tensor, s: Tensor) -> None:
        super().__init__()
        self.conv = conv
        self.bias = None if bias is None else nn.Parameter(bias)
        self.r = nn.Parameter(r)
        self.s = nn.Parameter(s)

    @classmethod
    def from_conv2d(cls, layer: nn.Conv2d, r: Tensor, s: Tensor) -> BatchEnsembleConv2d:
        """Return `layer` with factors; its weight and bias are copied, frozen if they were."""
        conv = copy.deepcopy(layer)
        conv.bias = None
        return _bias_frozen_as_in(layer, cls(conv, _repeated_bias(layer, len(r)), r, s))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n_members * n, in, height, width)`` to ``(n_members * n, out, ...)``."""
        n_rows = len(x) // len(self.r)
        r, s = (f.repeat_interleave(n_rows, 0)[..., None, None] for f in (self.r, self.s))
        out = self.conv(x * r) * s
        if self.bias is None:
            return out
        return out + self.bias.repeat_interleave(n_rows, 0)[..., None, None]


class BatchEnsemble(MemberwiseModule):
    """A network with rank-one factors for each member in all its linear and convolutional layers.

    Parameters
    ----------
    network : torch.nn.Module
        The backbone ``(n, *features) -> (n, n_classes)``, trained or not; it is copied. All that is
        not converted, such as batch normalisation, is shared by the members.
    rows : Tensor of shape (n, *features)
        A few rows, to see in which order layers are called.
    n_members : int
        Number of members, >= 1.
    scaling : Scaling
        How the factors start.
    generator : torch.Generator
        Where they are drawn from; on the CPU.

    Raises
    ------
    ValueError
        If a layer of `network` cannot be converted.
    """

    def __init__(
        self,
        network: nn.Module,
        rows: Tensor,
        n_members: int,
        scaling: Scaling,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.n_members = n_members

        def convert(layer: nn.Linear | nn.Conv2d, position: int) -> nn.Module:
            r, s = scaling.draw(layer, n_members, position, generator)
            if isinstance(layer, nn.Linear):
                return BatchEnsembleLinear.from_linear(layer, r, s)
            return BatchEnsembleConv2d.from_conv2d(layer, r, s)

        self.embedding, network = split_embedding(network)
        self.network = convert_layers(network, self.embedding(rows), convert)
        check_converted(self, rows)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, *features)`` to logits ``(n_members, n, n_classes)``."""
        x = self.embedding(x)  # once, for all members
        shared = x.expand(self.n_members, *x.shape).flatten(0, 1)
        return self.network(shared).unflatten(0, (self.n_members, -1))

    def for_prediction(self) -> nn.Module:
        """Return the members with their factors multiplied in, if all layers allow it."""
        layers = plain_layers(self.network, (BatchEnsembleLinear,))
        if layers is None:
            return self
        merged = (
            layer.merged() if isinstance(layer, BatchEnsembleLinear) else layer for layer in layers
        )
        return StackedMembers((self.embedding, *merged), self.n_members).for_prediction()


def _repeated_bias(layer: nn.Linear | nn.Conv2d, n_members: int) -> Tensor | None:
    return None if layer.bias is None else layer.bias.detach().repeat(n_members, 1)


def _bias_frozen_as_in(layer: nn.Linear | nn.Conv2d, scaled: Any) -> Any:
    if layer.bias is not None:
        scaled.bias.requires_grad_(layer.bias.requires_grad)
    return scaled
