"""A plain network taken apart: layers replaced by member-wise ones, or the last one split off."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .mlp import ACTIVATIONS, Dropout

CONVERTIBLE = (nn.Linear, nn.Conv2d)
# Layers with weights of their own that members can share.
SHAREABLE = (_BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.PReLU)


def called_layers(network: nn.Module, rows: Tensor) -> list[str]:
    """Return the names of the linear and convolutional layers, in the order of their first call.

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

    Raises
    ------
    ValueError
        If a layer is never called (its weight is used as a function's argument, or not at all).
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
    for name, layer in layers.items():
        if name not in names:
            raise ValueError(
                f"{_shown(name, layer)} is never called by the forward of module; a layer whose "
                "weight is used in a function, or not at all, cannot be converted. Call the layer."
            )
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
        If there is no such layer, or one with weights that cannot be converted.
    """
    network = copy.deepcopy(network)
    for name, layer in network.named_modules():
        own = list(layer.parameters(recurse=False))
        if own and not (type(layer) in CONVERTIBLE or isinstance(layer, SHAREABLE)):
            raise ValueError(
                f"{_shown(name, layer)} of module has weights that cannot be converted; only "
                "torch.nn.Linear and torch.nn.Conv2d can. Build the network of these, or use "
                "DAREEnsembleClassifier, which takes any."
            )
    names = called_layers(network, rows)
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


def is_plain_sequence(network: nn.Module, linear: tuple[type[nn.Module], ...]) -> bool:
    """Return whether `network` is a sequence of `linear` layers, activations and dropout alone."""
    allowed = (*linear, Dropout, *ACTIVATIONS.values())
    return type(network) is nn.Sequential and all(
        isinstance(layer, allowed) for layer in network.children()
    )


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
    logits = _seeded_call(network, rows)
    names = [n for n in called_layers(network, rows) if type(network.get_submodule(n)) is nn.Linear]
    if names:
        head = network.get_submodule(names[-1])
        assert isinstance(head, nn.Linear)
        backbone = _replaced(network, head, WhereTheHeadWas())
        with contextlib.suppress(RuntimeError), torch.no_grad():  # what follows may not fit
            hidden = _seeded_call(backbone, rows)
            if hidden.dim() == 2 and torch.equal(head(hidden), logits):
                return backbone, head
    raise ValueError(
        "module must end in a torch.nn.Linear whose output, (n, n_classes), is the logits; "
        f"{'that of ' + repr(names[-1]) if names else 'there is no such layer, so its output'} is "
        "not. Leave out what follows it, such as a softmax."
    )


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


def _seeded_call(network: nn.Module, rows: Tensor) -> Tensor:
    """Return the output, the same each time also where a network of one's own draws numbers."""
    with torch.random.fork_rng([rows.device] if rows.is_cuda else []), torch.no_grad():
        torch.manual_seed(0)
        return network.eval()(rows)


def _shown(name: str, layer: nn.Module) -> str:
    return f"Layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__
