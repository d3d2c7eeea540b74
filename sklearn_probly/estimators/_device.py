"""From the wish for a device to the device."""

from __future__ import annotations

import torch


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device meant by `device`.

    Parameters
    ----------
    device : str or torch.device
        ``"auto"`` is CUDA where there is one, else the CPU.

    Returns
    -------
    torch.device
        A device that exists here.

    Raises
    ------
    ValueError
        If `device` is no device, or is not there.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
        if resolved.type == "meta":
            raise RuntimeError("it holds no numbers.")
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device={str(device)!r} cannot be used here: {str(error).splitlines()[0]} "
            "Use device='auto' or 'cpu'."
        ) from error
    return resolved
