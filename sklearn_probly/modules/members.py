"""Independent members side by side, and what their predictions add up to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

# With more weights a member than this, the CPU is faster at one member after the other than at
# batched products: what passes between the layers of one stays in its cache.
LARGE_MEMBER = 2**10


class StackedLinear(nn.Module):
    """The linear layers of several members as one batched matrix product.

    Parameters
    ----------
    weight : Tensor of shape (n_members, in_features, out_features)
        One weight matrix for each member, transposed to that of `torch.nn.Linear`: the gradient
        then comes out of the batched product in the layout of the weight.
    bias : Tensor of shape (n_members, out_features) or None
        One bias for each member.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)

    @classmethod
    def from_linear(cls, layers: Sequence[nn.Linear]) -> StackedLinear:
        """Return the stack of `layers`, one a member, all of one shape, with their weights."""
        weight = torch.stack([layer.weight.detach().T for layer in layers])
        if layers[0].bias is None:
            return cls(weight, None)
        return cls(weight, torch.stack([layer.bias.detach() for layer in layers]))

    def to_linear(self, member: int) -> nn.Linear:
        """Return member number `member` as a plain layer with a copy of its weights."""
        weight = self.weight.detach()[member].T
        bias = None if self.bias is None else self.bias.detach()[member]
        layer = nn.Linear(len(self.weight[0]), len(weight), bias is not None, device="meta")
        layer.weight = nn.Parameter(weight.clone(memory_format=torch.contiguous_format))
        if bias is not None:
            layer.bias = nn.Parameter(bias.clone())
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, in)`` or ``(n_members, n, in)`` to ``(n_members, n, out)``."""
        if x.dim() == 2:  # a view: the rows are shared, not copied
            x = x.expand(len(self.weight), -1, -1)
        return batched_linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets."""
        n_members, in_features, out_features = self.weight.shape
        return f"n_members={n_members}, in_features={in_features}, out_features={out_features}"


def batched_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the linear map of each member on its rows, ``(n_members, n, out)``.

    Parameters
    ----------
    x : Tensor of shape (n_members, n, in)
        Rows.
    weight : Tensor of shape (n_members, in, out)
        Weights.
    bias : Tensor of shape (n_members, out) or None
        Biases.
    """
    return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias[:, None], x, weight)


class MemberwiseModule(nn.Module):
    """Maps ``(n, *features)`` to logits ``(n_members, n, n_classes)``.

    In training the first axis may be shorter, where members take turns or draws are averaged.
    """

    def for_prediction(self) -> nn.Module:
        """Return the quickest module of the same outputs, called for each chunk of one prediction.

        What does not depend on the rows (merged or sliced weights) is computed here, once.
        """
        return self


class IndependentMembers(MemberwiseModule):
    """Networks that share no weight, trained and asked together.

    Two forms exist: `StackedMembers`, one batched matrix product a layer, and `MemberList`, one
    call a member, for any network. What trains them needs to know one thing, which slice of which
    parameter is whose.
    """

    n_members: int

    def member_parameters(self) -> Iterator[tuple[nn.Parameter, int | None]]:
        """Yield each trainable parameter and its member, None if its first axis is the members."""
        raise NotImplementedError

    def member_states(self) -> list[list[Tensor]]:
        """Return for each member the tensors (views) that hold all it has learned."""
        raise NotImplementedError

    def member(self, index: int) -> nn.Module:
        """Return member number `index` as a plain network ``(n, *features) -> (n, n_classes)``."""
        raise NotImplementedError


class StackedMembers(IndependentMembers):
    """Members that are plain sequences of layers, as those of `mlp`.

    Parameters
    ----------
    layers : sequence of torch.nn.Module
        `StackedLinear` layers, and layers that have no weights and act on each row alone.
    n_members : int
        Number of members in each stack.
    """

    def __init__(self, layers: Iterable[nn.Module], n_members: int) -> None:
        super().__init__()
        self.n_members = n_members
        self.layers = nn.Sequential(*layers)

    @classmethod
    def from_members(cls, members: Sequence[nn.Sequential]) -> StackedMembers:
        """Return the stack of `members`, `torch.nn.Sequential` of one architecture."""
        layers = zip(*members, strict=True)
        return cls(
            (
                StackedLinear.from_linear(same) if isinstance(same[0], nn.Linear) else same[0]
                for same in layers
            ),
            len(members),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, d)`` or ``(n_members, n, d)`` to logits ``(n_members, n, n_classes)``."""
        return self.layers(x)

    def for_prediction(self) -> nn.Module:
        """Return the members to be called one after the other, where that is faster."""
        parameters = list(self.parameters())
        if parameters[0].is_cpu and sum(p[0].numel() for p in parameters) > LARGE_MEMBER:
            return MembersInTurn(self)
        return self

    def member(self, index: int) -> nn.Sequential:
        """Return member number `index` as a plain network with a copy of its weights."""
        return nn.Sequential(
            *(
                layer.to_linear(index) if isinstance(layer, StackedLinear) else layer
                for layer in self.layers
            )
        )

    def member_parameters(self) -> Iterator[tuple[nn.Parameter, int | None]]:
        """Yield each trainable parameter; its first axis is the members."""
        for parameter in self.parameters():
            if parameter.requires_grad:
                yield parameter, None

    def member_states(self) -> list[list[Tensor]]:
        """Return for each member the views of its weights."""
        return [[p.detach()[m] for p in self.parameters()] for m in range(self.n_members)]


class MembersInTurn(nn.Module):
    """Members of a stack at prediction, one after the other.

    Parameters
    ----------
    stacked : StackedMembers
        The members; their weights are not copied.
    """

    def __init__(self, stacked: StackedMembers) -> None:
        super().__init__()
        layers = list(stacked.layers)
        first = next(i for i, layer in enumerate(layers) if isinstance(layer, StackedLinear))
        self._shared = layers[:first]
        self._steps = [
            [
                partial(_linear, layer.weight[m], None if layer.bias is None else layer.bias[m])
                if isinstance(layer, StackedLinear)
                else layer
                for layer in layers[first:]
            ]
            for m in range(stacked.n_members)
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, d)`` or ``(n_members, n, d)`` to logits ``(n_members, n, n_classes)``."""
        for layer in self._shared:
            x = layer(x)
        outputs = []
        for m, steps in enumerate(self._steps):
            rows = x if x.dim() == 2 else x[m]
            for step in steps:
                rows = step(rows)
            outputs.append(rows)
        return torch.stack(outputs)


def _linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


class MemberList(IndependentMembers):
    """Members of any architecture, called one after the other.

    A loop rather than `torch.vmap`: batch normalisation, dropout and control flow work as in a
    single network, and calls from several threads do not disturb one another.

    Parameters
    ----------
    members : sequence of torch.nn.Module
        Networks that map ``(n, *features)`` to logits ``(n, n_classes)``.
    input_dim : int
        Number of axes of ``(n, *features)``.
    """

    def __init__(self, members: Sequence[nn.Module], input_dim: int) -> None:
        super().__init__()
        self.n_members = len(members)
        self.input_dim = input_dim
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """Map rows, shared or on a first axis of members, to ``(n_members, n, n_classes)``."""
        own = x if x.dim() > self.input_dim else [x] * self.n_members
        return torch.stack([member(rows) for member, rows in zip(self.members, own, strict=True)])

    def member(self, index: int) -> nn.Module:
        """Return member number `index`."""
        return self.members[index]

    def member_parameters(self) -> Iterator[tuple[nn.Parameter, int | None]]:
        """Yield each trainable parameter and the number of its member."""
        for index, member in enumerate(self.members):
            for parameter in member.parameters():
                if parameter.requires_grad:
                    yield parameter, index

    def member_states(self) -> list[list[Tensor]]:
        """Return for each member its weights and buffers."""
        return [
            [t.detach() for t in (*member.parameters(), *member.buffers())]
            for member in self.members
        ]


class Moments(NamedTuple):
    """What the members' predictions come to; float64, entropies in bits.

    Attributes
    ----------
    mean_proba : Tensor of shape (n, n_classes)
        Mean over members of their class probabilities.
    total : Tensor of shape (n,)
        Entropy of `mean_proba`.
    aleatoric : Tensor of shape (n,)
        Mean over members of their entropies.
    epistemic : Tensor of shape (n,)
        The difference: the mutual information of label and member.
    """

    mean_proba: Tensor
    total: Tensor
    aleatoric: Tensor
    epistemic: Tensor


def moments(logits: Tensor) -> Moments:
    """Return the moments over members of ``softmax(logits)``.

    `measures.decompose` is the same on NumPy arrays; this one stays on the device.

    Parameters
    ----------
    logits : Tensor of shape (n_members, n, n_classes)
        Finite logits of one chunk of rows.

    Returns
    -------
    Moments
        Each part >= 0, total <= log2(n_classes), total = aleatoric + epistemic.
    """
    proba = logits.double().softmax(-1)
    mean_proba = proba.mean(0)
    total = entropy(mean_proba)
    epistemic = (total - entropy(proba).mean(0)).clamp_(min=0)
    return Moments(mean_proba, total, total - epistemic, epistemic)


def entropy(proba: Tensor) -> Tensor:
    """Return the entropy over the last axis, bits, at most log2 of its length.

    Parameters
    ----------
    proba : Tensor of shape (..., n_classes)
        Probabilities; p log p is 0 at p = 0.

    Returns
    -------
    Tensor of shape (...)
        Entropies.
    """
    bits = torch.special.entr(proba).sum(-1).div_(math.log(2))
    return bits.clamp_(0, math.log2(proba.shape[-1]))
