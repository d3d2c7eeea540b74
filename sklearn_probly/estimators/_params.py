"""Parameters: the ones that are named, and skorch's ``prefix__name`` ones that pass through."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import Any

from sklearn.base import BaseEstimator

PREFIXES = ("callbacks", "criterion", "iterator_train", "module", "optimizer")


def same(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter are equal; they may be arrays or tensors."""
    if a is b:
        return True
    try:
        equal = a == b
        return bool(equal.all() if hasattr(equal, "all") else equal)
    except (TypeError, ValueError, RuntimeError):
        return False


class SkorchParamsEstimator(BaseEstimator):
    """A `BaseEstimator` whose parameters include skorch's ``prefix__name``.

    A subclass names its own parameters in ``__init__``, keyword only, and hands the rest on with
    ``**params``; `inspect.signature` then lists them all, those of its bases last.
    """

    _skorch_params: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__.__signature__ = _merged_signature(cls)  # type: ignore[attr-defined]

    def _set_skorch_params(self, params: dict[str, Any]) -> None:
        for name in params:
            if "__" not in name:
                raise TypeError(
                    f"{type(self).__name__}() got an unexpected keyword argument {name!r}."
                    f"{self._near_matches(name)}"
                )
        self._skorch_params = params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, skorch's ``prefix__name`` ones included.

        Parameters
        ----------
        deep : bool, default=True
            Also return the parameters of parameters that are estimators.

        Returns
        -------
        dict
            Names and values.
        """
        return {**super().get_params(deep=deep), **self._skorch_params}

    def set_params(self, **params: Any) -> SkorchParamsEstimator:
        """Set parameters; takes effect at the next `fit`.

        Parameters
        ----------
        **params : dict
            Named parameters and skorch's ``prefix__name`` ones.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a name without ``__`` is no parameter.
        """
        named = self._get_param_names()
        unknown = [name for name in params if name not in named and "__" not in name]
        if unknown:
            raise ValueError(
                f"Invalid parameter {unknown[0]!r} for estimator {type(self).__name__}."
                f"{self._near_matches(unknown[0])} Valid parameters are: {named}."
            )
        for name, value in params.items():
            if name in named:
                setattr(self, name, value)
            else:
                self._skorch_params = {**self._skorch_params, name: value}
        return self

    def _check_skorch_params(self) -> None:
        for name in self._skorch_params:
            prefix = name.split("__")[0]
            if prefix not in PREFIXES:
                near = get_close_matches(prefix, PREFIXES, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ValueError(
                    f"Parameter {name!r} of {type(self).__name__} has the prefix {prefix!r}, "
                    f"which is none of {', '.join(PREFIXES)}.{hint}"
                )

    def _near_matches(self, name: str) -> str:
        near = get_close_matches(name, self._get_param_names())
        return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _merged_signature(cls: type) -> inspect.Signature:
    """Return the signature of ``cls.__init__`` with its bases' parameters in place of **params."""
    own = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    merged = dict(own)
    if any(p.kind is p.VAR_KEYWORD for p in own.values()):
        inherited = inspect.signature(super(cls, cls).__init__).parameters  # type: ignore
        merged = {**own, **{k: p for k, p in inherited.items() if k not in own}}
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return inspect.Signature([p for p in merged.values() if p.kind not in variadic])
