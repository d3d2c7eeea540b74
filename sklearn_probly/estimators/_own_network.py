"""A network of the user's own, built anew for each member."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def own_network(
    module: Any, n_features: int, n_classes: int, params: dict[str, Any], seed: int
) -> nn.Module:
    """Return a fresh network of the user's, with weights that `seed` determines.

    Parameters
    ----------
    module : type, nn.Module or callable
        A class is called with `params`, an instance is copied and its layers are re-initialised, a
        callable is called with ``n_features`` and ``n_classes``.
    n_features, n_classes : int
        What a callable is told.
    params : dict
        The ``module__...`` parameters.
    seed : int
        Seed of torch's global generator, which the caller has borrowed.
    """
    torch.manual_seed(seed)
    if isinstance(module, nn.Module):
        if params:
            return type(module)(**params)
        network = copy.deepcopy(module)
        for layer in network.modules():
            reset: Callable[[], None] | None = getattr(layer, "reset_parameters", None)
            if reset is not None:
                reset()
            elif any(True for _ in layer.parameters(recurse=False)):
                raise ValueError(
                    f"{type(layer).__name__} has parameters but no reset_parameters(), so it "
                    "cannot be initialised anew for each member; give `module` as a class or a "
                    "callable (n_features, n_classes) instead of an instance."
                )
        return network
    network = module(**params) if isinstance(module, type) else module(n_features, n_classes)
    if not isinstance(network, nn.Module):
        raise TypeError(f"module must give a torch.nn.Module; got {type(network).__name__}.")
    return network
