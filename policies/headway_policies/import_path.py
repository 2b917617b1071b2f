"""The reading of an import path.

A preset may name a custom policy as ``package.module:Class``, the form of Python's entry points, and a server a check
of the operator's as ``package.module:function``. Finding it imports the module, which runs its code: trust a preset
file only as far as the program that reads it.
"""

from __future__ import annotations

import importlib
import re
from typing import Final

from pydantic import AfterValidator

from headway_policies.close_name import did_you_mean

#: The exceptions that the code of a policy may raise without ending the program: sys.exit is caught, Ctrl-C is not.
FAILURES = (Exception, SystemExit)
_PATH: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def named_policy(*names: str) -> AfterValidator:
    """The check of a setting that is one of these names, or the import path of a custom policy."""

    def check(name: str) -> str:
        if name not in names and _PATH.fullmatch(name) is None:
            known = ", ".join(names)
            raise ValueError(f"must be {known} or package.module:Class{did_you_mean(name, names)}")
        return name

    return AfterValidator(check)


def find_class(path: str) -> type:
    """The class at ``package.module:Class``. Raises ValueError in one line that says what is wrong with the path."""
    found = find(path, "Class")
    if not isinstance(found, type):
        raise ValueError(f"{path} is not a class but {type(found).__name__}")
    return found


def find(path: str, kind: str) -> object:
    """The object at this path; ``kind`` is the last word of its form. Raises ValueError as ``find_class`` does."""
    module_name, colon, name = path.partition(":")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise ValueError(f"{path[:100]!r} is not of the form package.module:{kind}")
    try:
        module = importlib.import_module(module_name)
    except FAILURES as error:  # importing a module runs its code
        raise ValueError(f"{module_name} cannot be imported: {cause(error)}") from error
    try:
        found: object = getattr(module, name)
    except AttributeError:
        raise ValueError(f"{module_name} has no {name}") from None
    return found


def cause(error: BaseException) -> str:
    """The error that a policy raised, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ModuleNotFoundError) else f"{type(error).__name__}: {text}"
