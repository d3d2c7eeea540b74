"""A plain network taken apart: layers replaced by member-wise ones, or the last one split off."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .embeddings import FeatureEmbedding
from .mlp import ACTIVATIONS, Dropout

CONVERTIBLE = (nn.Linear, nn.Conv2d)
# Layers with weights of their own that members can share.
SHAREABLE = (_BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.PReLU)


def called_layers(network: nn.Module, rows: Tensor) -> list[str]:
    """Return the names of the linear and convolutional layers called, in order of the first call.

    Parameters
    ----------
    network : torch.nn.Module
        Maps `rows` to logits; is called once, in evaluation mode.
    rows : Tensor of shape (n, *features)
        A few rows.

    Returns
    -------
    list of str
        Names as in `named_modules`.
    """
    names: list[str] = []
    layers = {name: m for name, m in network.named_modules() if isinstance(m, CONVERTIBLE)}
    hooks = [
        layer.register_forward_hook(lambda *_, name=name: names.append(name))
        for name, layer in layers.items()
    ]
    network.eval()
    try:
        with torch.no_grad():
            network(rows)
    finally:
        for hook in hooks:
            hook.remove()
    return list(dict.fromkeys(names))


def convert_layers(
    network: nn.Module, rows: Tensor, convert: Callable[[Any, int], nn.Module]
) -> nn.Module:
    """Return a copy of `network` with each linear and convolutional layer converted.

    Parameters
    ----------
    network : torch.nn.Module
        A network of one's own, or the default one.
    rows : Tensor of shape (n, *features)
        A few rows, to see in which order layers are called.
    convert : callable
        Called with a layer (`torch.nn.Linear` or `torch.nn.Conv2d`) and its position in the order
        of calls; returns what takes its place.

    Returns
    -------
    torch.nn.Module
        The converted copy. Normalisation layers are kept, for all members to share.

    Raises
    ------
    ValueError
        If there is no such layer, one with weights that cannot be converted, or one that is never
        called (its weight is used as a function's argument, or not at all).
    """
    network = copy.deepcopy(network)
    for name, layer in network.named_modules():
        own = list(layer.parameters(recurse=False))
        if own and not (type(layer) in CONVERTIBLE or isinstance(layer, SHAREABLE)):
            raise ValueError(
                f"{_shown(name, layer)} of module has weights that cannot be converted; only "
                "torch.nn.Linear and torch.nn.Conv2d can. Build the network of these, or use a "
                "method that takes any network."
            )
    names = called_layers(network, rows)
    for name, layer in network.named_modules():
        if isinstance(layer, CONVERTIBLE) and name not in names:
            raise ValueError(
                f"{_shown(name, layer)} is never called by the forward of module; a layer whose "
                "weight is used in a function, or not at all, cannot be converted. Call the layer."
            )
    if not names:
        raise ValueError("module has no torch.nn.Linear and no torch.nn.Conv2d to convert.")
    for position, layer in enumerate([network.get_submodule(name) for name in names]):
        network = _replaced(network, layer, convert(layer, position))
    return network


def check_converted(module: nn.Module, rows: Tensor) -> None:
    """Raise ValueError unless the converted `module` takes `rows`."""
    try:
        with torch.no_grad():
            module.eval()(rows)
    except Exception as error:
        raise ValueError(
            "module works, but not with its layers converted: its forward may use the attributes "
            f"of a layer, or mix the rows of a batch. {type(error).__name__}: {error}"
        ) from error


def plain_layers(network: nn.Module, linear: tuple[type[nn.Module], ...]) -> list[nn.Module] | None:
    """Return the layers of a sequence as that of `mlp`, but of `linear` layers; else None.

    Layers that work in place are not among them: members may share what they are given.
    """
    if type(network) is not nn.Sequential:
        return None
    layers = list(network)  # one may come twice, which children() leaves out
    allowed = (*linear, FeatureEmbedding, Dropout, *ACTIVATIONS.values())
    plain = all(isinstance(m, allowed) and not getattr(m, "inplace", False) for m in layers)
    return layers if plain else None


def split_embedding(network: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return the embedding that `network` begins with, or an identity, and what follows it."""
    if isinstance(network, nn.Sequential) and isinstance(network[0], FeatureEmbedding):
        return network[0], network[1:]
    return nn.Identity(), network


def split_head(network: nn.Module, rows: Tensor) -> tuple[nn.Module, nn.Linear]:
    """Return `network` as a backbone and the linear layer that ends it.

    Parameters
    ----------
    network : torch.nn.Module
        Maps `rows` to logits ``(n, n_classes)``. It is taken apart; its weights are not copied.
    rows : Tensor of shape (n, *features)
        A few rows, to see that the two parts make up the whole.

    Returns
    -------
    backbone : torch.nn.Module
        ``(n, *features) -> (n, n_hidden)``.
    head : torch.nn.Linear
        ``(n, n_hidden) -> (n, n_classes)``.

    Raises
    ------
    ValueError
        If the logits are not what the last linear layer returns.
    """
    calls: list[tuple[nn.Linear, Tensor]] = []
    hooks = [
        layer.register_forward_hook(lambda layer, _, out: calls.append((layer, out)))
        for layer in network.modules()
        if type(layer) is nn.Linear
    ]
    network.eval()
    with torch.no_grad():
        try:
            logits = network(rows)
        finally:
            for hook in hooks:
                hook.remove()
        if not calls:
            raise ValueError("module must end in a torch.nn.Linear; it calls none.")
        head, out = calls[-1]
        once = sum(layer is head for layer, _ in calls) == 1
        # The very memory, not equal numbers: a clamp, say, may have changed none of these rows.
        if not (once and out.data_ptr() == logits.data_ptr() and out.shape == logits.shape):
            raise ValueError(
                "module must end in a torch.nn.Linear, called once, whose output, (n, n_classes), "
                f"is the logits; that of {head} is not. Leave out what follows it, such as a "
                "softmax."
            )
        backbone = _replaced(network, head, WhereTheHeadWas())
        try:
            hidden = backbone(rows)
        except Exception as error:
            raise ValueError(
                f"module works, but not with its last layer, {head}, split off: its forward may "
                f"use the attributes of that layer. {type(error).__name__}: {error}"
            ) from error
    if hidden.shape != (len(rows), head.in_features):
        raise ValueError(
            f"What module gives to its last layer, {head}, must have shape (n, n_hidden); got "
            f"{tuple(hidden.shape)} for {len(rows)} rows."
        )
    return backbone, head


def join_head(backbone: nn.Module, head: nn.Linear) -> nn.Module:
    """Return what `split_head` took apart, whole again."""
    place = next(m for m in backbone.modules() if isinstance(m, WhereTheHeadWas))
    return _replaced(backbone, place, head)


class WhereTheHeadWas(nn.Identity):
    """Takes the place of the last layer in a backbone."""


def _replaced(network: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    if network is old:
        return new
    everywhere = list(network.named_modules(remove_duplicate=False))
    for path in [path for path, module in everywhere if module is old]:
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, new)
    return network


def _shown(name: str, layer: nn.Module) -> str:
    return f"Layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__
