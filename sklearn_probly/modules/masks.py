"""Masksembles: members that share all weights and differ by which hidden units they use."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .conversion import check_converted, convert_layers, plain_layers
from .members import MemberwiseModule, StackedLinear, StackedMembers
from .mlp import Stochastic


def make_masks(num_masks: int, width: int, scale: float, generator: torch.Generator) -> Tensor:
    r"""Return random masks that each keep the same number of units and together use all.

    As in the reference [1]_, each mask is a random m-subset of ``m * scale`` positions, of which
    those that some mask uses remain, with m chosen so that `width` are expected to. Instead of
    drawing again until exactly `width` remain, surplus positions are dissolved (their uses go to
    others) and missing ones are made from positions with several uses; this always ends.

    Parameters
    ----------
    num_masks : int
        Number of masks n, >= 1.
    width : int
        Number of units, >= 1.
    scale : float
        s >= 1: two masks have about 1 / (2 s - 1) of the units of either in common; 1 keeps all.
    generator : torch.Generator
        Where masks are drawn from; on the CPU.

    Returns
    -------
    Tensor of shape (num_masks, width), bool
        Each row has m = width / (s (1 - (1 - 1/s)^n)) ones, rounded down but enough to use every
        unit; each column has at least one.

    References
    ----------
    .. [1] N. Durasov, T. Bagautdinov, P. Baque, P. Fua. "Masksembles for Uncertainty Estimation".
       CVPR 2021, arXiv 2012.08334.
    """
    scale = min(scale, 16 * num_masks)  # from there on masks hardly meet, and nothing changes
    expected = scale * (1 - (1 - 1 / scale) ** num_masks)
    # Rounding must not turn 3.0 into 2.
    kept = max(int(width / expected + 1e-9), math.ceil(width / num_masks))
    n_positions = max(round(kept * scale), kept)
    order = torch.rand(num_masks, n_positions, generator=generator, dtype=torch.float64).argsort(1)
    masks = torch.zeros(num_masks, max(n_positions, width), dtype=torch.bool)
    masks.scatter_(1, order[:, :kept], True)
    uses = masks.sum(0)
    # Most used positions first, ties in random order; the first `width` are the units.
    ties = torch.rand(len(uses), generator=generator, dtype=torch.float64)
    masks = masks[:, torch.argsort(uses + ties, descending=True)]
    for mask in masks:  # uses of surplus positions go to units that the mask lacks
        surplus = int(mask[width:].sum())
        lacking = (~mask[:width]).nonzero()[:, 0]
        mask[lacking[torch.randperm(len(lacking), generator=generator)[:surplus]]] = True
    masks = masks[:, :width].contiguous()
    for unit in (masks.sum(0) == 0).nonzero()[:, 0].tolist():
        # A use of the unit that has the most goes to the one that has none.
        giver = int(masks.sum(0).argmax())
        users = masks[:, giver].nonzero()[:, 0]
        mask = users[int(torch.randint(len(users), (1,), generator=generator))]
        masks[mask, giver], masks[mask, unit] = False, True
    return masks[:, torch.randperm(width, generator=generator)]


class Turns:
    """Whose turn it is: the mask of each row of the batch that is being trained on.

    Attributes
    ----------
    of_row : Tensor of shape (n,), int64, or None
        None at prediction, when rows come member after member.
    """

    of_row: Tensor | None = None


class MaskedInput(nn.Module):
    """A layer that sees only the inputs that a mask keeps.

    The inputs are the former layer's units after activation and dropout. For the ReLU that is the
    place of the paper, since ReLU(0) = 0. What is kept is not scaled.

    Parameters
    ----------
    layer : torch.nn.Linear or torch.nn.Conv2d
        The layer.
    masks : Tensor of shape (n_masks, in_features) or (n_masks, in_channels), bool
        A mask for each member.
    turns : Turns
        Shared by the layers of a network.
    """

    masks: Tensor

    def __init__(self, layer: nn.Linear | nn.Conv2d, masks: Tensor, turns: Turns) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("masks", masks)
        self.turns = turns

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the layer for rows ``(n, ...)`` as it takes them."""
        of_row = self.turns.of_row
        if of_row is None:
            of_row = torch.arange(len(self.masks), device=x.device)
        mask = self.masks[of_row.repeat_interleave(len(x) // len(of_row))]
        if isinstance(self.layer, nn.Linear):
            return self.layer(x * mask.view(len(x), *[1] * (x.dim() - 2), -1))
        return self.layer(x * mask[..., None, None])


class Masksembles(MemberwiseModule, Stochastic):
    """A network whose hidden units are masked, by a mask of each member's own.

    In training each row of a batch has one mask, drawn so that all are used equally often; the
    output then has one member, ``(1, n, n_classes)``. At prediction each row is given every mask.

    Parameters
    ----------
    network : torch.nn.Module
        A plain network ``(n, *features) -> (n, n_classes)``; it is copied. The inputs of all its
        linear and convolutional layers but the first are masked.
    rows : Tensor of shape (n, *features)
        A few rows, to see in which order layers are called.
    num_masks : int
        Number of members, >= 1.
    scale : float
        As in `make_masks`.
    generator : torch.Generator
        Where masks are drawn from; on the CPU.

    Raises
    ------
    ValueError
        If a layer of `network` cannot be converted or there is no hidden one.
    """

    def __init__(
        self,
        network: nn.Module,
        rows: Tensor,
        num_masks: int,
        scale: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.n_members = num_masks
        self.turns = Turns()

        def convert(layer: nn.Linear | nn.Conv2d, position: int) -> nn.Module:
            if position == 0:
                return layer
            width = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
            masks = make_masks(num_masks, width, scale, generator)
            return MaskedInput(layer, masks.to(layer.weight.device), self.turns)

        self.network = convert_layers(network, rows, convert)
        if not any(isinstance(layer, MaskedInput) for layer in self.network.modules()):
            raise ValueError(
                "Masksembles masks hidden units, and the network has none: hidden_layer_sizes=() "
                "or a module of one layer. Give it a hidden layer."
            )
        check_converted(self, rows)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, *features)`` to logits: ``(1, n, n_classes)`` in training, else of members."""
        if not self.training:
            rows = x.expand(self.n_members, *x.shape).flatten(0, 1)
            return self.network(rows).unflatten(0, (self.n_members, -1))
        self.turns.of_row = balanced_turns(len(x), self.n_members, self.generator, x.device)
        try:
            return self.network(x)[None]
        finally:
            self.turns.of_row = None

    def for_prediction(self) -> nn.Module:
        """Return the members with only the units that they keep, if all layers allow it."""
        layers = plain_layers(self.network, (nn.Linear, MaskedInput))
        if layers is None:
            return self
        first = next(i for i, layer in enumerate(layers) if isinstance(layer, MaskedInput))
        kept = _kept_units(layers[first])
        members = _sliced(layers[first:]).for_prediction()
        return SlicedMembers(nn.Sequential(*layers[:first]), kept, members)


class SlicedMembers(nn.Module):
    """Members at prediction: the first layer once for all, then each member's own units.

    Parameters
    ----------
    shared : torch.nn.Module
        The layers up to the first masked one, ``(n, n_features) -> (n, width)``.
    kept : Tensor of shape (n_members, m), int64
        The units of the first hidden layer that each member keeps.
    members : MemberwiseModule
        The layers from there on.
    """

    def __init__(self, shared: nn.Module, kept: Tensor, members: nn.Module) -> None:
        super().__init__()
        self.shared = shared
        self.kept = kept
        self.members = members

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, n_features)`` to logits ``(n_members, n, n_classes)``."""
        hidden = self.shared(x).index_select(1, self.kept.flatten())
        return self.members(hidden.view(len(x), *self.kept.shape).transpose(0, 1))


def balanced_turns(
    n_rows: int, n_members: int, generator: torch.Generator | None, device: torch.device
) -> Tensor:
    """Return a random member for each row, each as often as any other, or once more.

    Parameters
    ----------
    n_rows, n_members : int
        How many there are.
    generator : torch.Generator or None
        Where they are drawn from, on `device`; None is torch's global generator.
    device : torch.device
        Of the result.

    Returns
    -------
    Tensor of shape (n_rows,), int64
        Indices of members.
    """
    members = torch.randperm(n_members, generator=generator, device=device)
    position = torch.randperm(n_rows, generator=generator, device=device)
    return members[position % n_members]


def _kept_units(layer: nn.Module) -> Tensor:
    assert isinstance(layer, MaskedInput)
    return layer.masks.nonzero()[:, 1].view(len(layer.masks), -1)


def _sliced(layers: list[nn.Module]) -> StackedMembers:
    masked = [layer for layer in layers if isinstance(layer, MaskedInput)]
    masks, n_classes = masked[-1].masks, len(masked[-1].layer.weight)
    outputs = [_kept_units(layer) for layer in masked[1:]]
    outputs.append(torch.arange(n_classes, device=masks.device).repeat(len(masks), 1))
    kept = iter(outputs)
    return StackedMembers(
        (
            _sliced_linear(layer, next(kept)) if isinstance(layer, MaskedInput) else layer
            for layer in layers
        ),
        len(masks),
    )


def _sliced_linear(layer: MaskedInput, outputs: Tensor) -> StackedLinear:
    weight, bias = layer.layer.weight.detach(), layer.layer.bias
    sliced = weight.T[_kept_units(layer)[:, :, None], outputs[:, None, :]]
    return StackedLinear(sliced, None if bias is None else bias.detach()[outputs])
