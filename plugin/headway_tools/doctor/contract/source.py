"""vLLM's source, read and not imported: what its modules define. Works for a release that cannot be imported here."""

from __future__ import annotations

import ast
import importlib.util
from functools import cached_property, lru_cache
from pathlib import Path

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class VllmSource:
    """The package in a folder. A name is looked up in a module, then in the bases of a class, in other modules too."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self._members: dict[tuple[str, str], dict[str, list[str] | None]] = {}

    @classmethod
    def installed(cls) -> VllmSource | None:
        """The installed vLLM; None without one."""
        spec = importlib.util.find_spec("vllm")
        return None if spec is None or spec.origin is None else cls(Path(spec.origin).parent)

    @cached_property
    def version(self) -> str:
        """As the package states it; "" where it does not."""
        path = self.package / "_version.py"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        stated = [line.split("=")[-1].strip().strip("'\"") for line in lines if line.startswith("__version__ =")]
        return next((word for word in stated if word[:1].isdigit()), "")

    def text(self, module: str) -> str | None:
        """The source of a module; None where there is no such module."""
        path = self.package.parent.joinpath(*module.split("."))
        files = (path.with_suffix(".py"), path / "__init__.py")
        return next((file.read_text(encoding="utf-8") for file in files if file.exists()), None)

    def names(self, module: str) -> set[str]:
        """The names that a module defines, assigns or imports, at any depth."""
        found: set[str] = set()
        tree = _parsed(self.text(module) or "")
        for node in (child for child in ast.walk(tree) if not isinstance(child, ast.Module)):
            if isinstance(node, ast.ClassDef | _Function):
                found.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif module == "vllm" and isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)  # what the package imports lazily, by name
        return found

    def members(self, module: str, class_name: str) -> dict[str, list[str] | None]:
        """Methods of a class with their parameters, and attributes (None) that it declares or sets on ``self``."""
        known = self._members.get((module, class_name))
        if known is None:
            known = self._members[module, class_name] = self._read_members(module, class_name)
        return known

    def _read_members(self, module: str, class_name: str) -> dict[str, list[str] | None]:
        tree = _parsed(self.text(module) or "")
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name]
        found: dict[str, list[str] | None] = {}
        if not classes and (elsewhere := self._module_of(tree, module, class_name)) != module:
            return self.members(elsewhere, class_name)
        for defined in classes:
            for base in defined.bases:
                name = base.id if isinstance(base, ast.Name) else ""
                found |= self.members(self._module_of(tree, module, name), name) if name else {}
            found |= _own_members(defined)
        return found

    def _module_of(self, tree: ast.Module, module: str, name: str) -> str:
        """The module from which a class was imported, else the module itself."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
                return ".".join(filter(None, (self._base(module, node.level), node.module)))
        return module

    def _base(self, module: str, level: int) -> str:
        """The package from which a relative import of this level starts; "" for an absolute one."""
        if not level:
            return ""
        is_package = self.package.parent.joinpath(*module.split("."), "__init__.py").exists()
        parts = module.split(".")
        return ".".join(parts[: len(parts) - level + is_package])


def _own_members(one: ast.ClassDef) -> dict[str, list[str] | None]:
    found: dict[str, list[str] | None] = {}
    for node in ast.walk(one):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.setdefault(node.attr, None)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, None)
    for node in one.body:
        if isinstance(node, _Function):
            arguments = node.args
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            found[node.name] = [argument.arg for argument in every]
    return found


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)
