"""A network of the user's own, built anew for each member."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..modules.generators import seed_global_generators


def own_network(
    module: Any, n_features: int, n_classes: int, params: dict[str, Any], seed: int
) -> nn.Module:
    """Return a fresh network of the user's, with weights that `seed` determines.

    Parameters
    ----------
    module : type, nn.Module or callable
        A class is called with `params`, an instance is copied and its layers are re-initialised, a
        callable is called with ``n_features``, ``n_classes`` and `params`.
    n_features, n_classes : int
        What a callable is told.
    params : dict
        The ``module__...`` parameters.
    seed : int
        Seed of torch's global generators, which the caller has borrowed.
    """
    seed_global_generators(seed)
    network = _built(module, n_features, n_classes, params)
    network.register_forward_pre_hook(_copied_rows)
    return network


def _copied_rows(network: nn.Module, rows: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give a network rows of its own: it may work in place, and others are given the same."""
    return tuple(x.clone() if isinstance(x, Tensor) else x for x in rows)


def _built(module: Any, n_features: int, n_classes: int, params: dict[str, Any]) -> nn.Module:
    if isinstance(module, nn.Module):
        if params:
            raise ValueError(
                f"module__{next(iter(params))} cannot change a module that is an instance; give "
                "`module` as its class or as a callable (n_features, n_classes, **params)."
            )
        return _initialised_anew(module)
    try:
        if isinstance(module, type):
            network = module(**params)
        else:
            # A copy: the callable may give the same object every time.
            network = copy.deepcopy(module(n_features, n_classes, **params))
    except TypeError as error:
        raise ValueError(f"module with parameters {params!r} cannot be built: {error}") from error
    if not isinstance(network, nn.Module):
        raise TypeError(f"module must give a torch.nn.Module; got {type(network).__name__}.")
    return network


def check_network(network: nn.Module, rows: Tensor, n_classes: int) -> None:
    """Raise ValueError unless `network` maps `rows` to logits ``(n, n_classes)`` and can learn.

    The call also gives lazy layers their shape.
    """
    _check_output(network.eval(), rows, n_classes)
    if len(rows) > 1:  # batch normalisation cannot train on one
        _check_output(copy.deepcopy(network).train(), rows, n_classes)
    if not any(p.requires_grad for p in network.parameters()):
        raise ValueError("module has no trainable parameters; there is nothing to fit.")


def _check_output(network: nn.Module, rows: Tensor, n_classes: int) -> None:
    mode = " in training mode" if network.training else ""
    try:
        with torch.no_grad():
            out = network(rows)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
        raise ValueError(
            f"module cannot take rows of shape {tuple(rows.shape)}{mode}: {error}"
        ) from error
    if not isinstance(out, Tensor) or out.shape != (len(rows), n_classes):
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(
            f"module must return logits of shape (n, n_classes) = {(len(rows), n_classes)}{mode}; "
            f"got {got}."
        )
    if not out.is_floating_point():
        raise ValueError(f"module must return floating-point logits; got {out.dtype}.")


def _initialised_anew(module: nn.Module) -> nn.Module:
    network = copy.deepcopy(module)
    for layer in network.modules():
        reset: Callable[[], None] | None = getattr(layer, "reset_parameters", None)
        if reset is None:
            reset = getattr(layer, "_reset_parameters", None)
        if reset is not None:
            reset()
        elif any(True for _ in layer.parameters(recurse=False)):
            raise ValueError(
                f"{type(layer).__name__} has parameters but no reset_parameters(), so it "
                "cannot be initialised anew for each member; give `module` as a class or a "
                "callable (n_features, n_classes) instead of an instance."
            )
    return network
