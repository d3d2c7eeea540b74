"""One progress bar for a whole fit."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Progress:
    """A bar over the epochs of all phases; silent unless asked for.

    Parameters
    ----------
    total : int
        Most epochs of all phases together.
    disable : bool
        Draw nothing.
    """

    def __init__(self, total: int, disable: bool) -> None:
        self._bar: Any = None
        if not disable:
            from tqdm.auto import tqdm  # skorch depends on it

            self._bar = tqdm(total=total, unit="epoch")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def phase(self, name: str) -> None:
        """Show the name of the phase that starts."""
        if self._bar is not None:
            self._bar.set_description(name)

    def epoch(self, loss: float, accuracy: float) -> None:
        """Count one epoch, with the mean training loss (nats) and accuracy of the members."""
        if self._bar is not None:
            self._bar.set_postfix(loss=f"{loss:.4f}", accuracy=f"{accuracy:.4f}", refresh=False)
            self._bar.update()
