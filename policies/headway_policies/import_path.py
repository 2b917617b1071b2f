"""Which class does an import path name?

A preset may name a policy of your own as ``package.module:Class``, the form of Python's entry points. Finding it
imports the module, which runs its code: a preset file is to be trusted as much as the program that reads it.
"""

from __future__ import annotations

import importlib

#: What the code of a policy may raise without ending us: sys.exit in it is its own end, Ctrl-C is the program's.
FAILURES = (Exception, SystemExit)


def find_class(path: str) -> type:
    """The class at ``package.module:Class``. Raises ValueError in one line that says what is wrong with the path."""
    module_name, colon, class_name = path.partition(":")
    if not (colon and class_name.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise ValueError(f"{path!r} is not of the form package.module:Class")
    try:
        module = importlib.import_module(module_name)
    except FAILURES as error:  # whatever the module does while it is imported
        raise ValueError(f"{module_name} cannot be imported: {cause(error)}") from error
    try:
        found: object = getattr(module, class_name)
    except AttributeError:
        raise ValueError(f"{module_name} has no {class_name}") from None
    if not isinstance(found, type):
        raise ValueError(f"{path} is not a class but {type(found).__name__}")
    return found


def cause(error: BaseException) -> str:
    """What a policy's code raised, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ModuleNotFoundError) else f"{type(error).__name__}: {text}"
