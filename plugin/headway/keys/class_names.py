"""The classes that a keys file names, compared with the classes of the presets: a misspelt one would never be given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from headway.keys.problems import Problem
from headway_policies.close_name import no_such
from headway_policies.entitlement import Entitlement


def unknown_classes(tenants: Iterable[Entitlement], known: Collection[str]) -> Iterator[Problem]:
    """A problem for each class of a tenant that none of the presets has, whose classes are ``known``."""
    for tenant in tenants:
        default = [] if tenant.default_class is None else [tenant.default_class]
        for name in sorted({*(tenant.classes or ()), *default}.difference(known)):
            what, _, remedy = no_such("class", name, known).partition("; ")
            yield Problem(f"tenants.{tenant.tenant}", f"{what} in any preset here", remedy)
