"""Conformance of the custom policies that a preset names."""

from __future__ import annotations

from collections.abc import Callable

from headway_policies.conformance.limits import RULES, violations
from headway_policies.conformance.orders import check_discipline, check_order
from headway_policies.conformance.windows import check_window
from headway_policies.import_path import FAILURES, cause, find_class
from headway_policies.preset import Issue, Preset, one_line, shown

#: The rules that an author may break on purpose.
ACCEPTABLE = tuple(rule.name for rule in RULES.values() if rule.acceptable)


def failures(preset: Preset) -> list[Issue]:
    """The violations by the custom policies of a preset, in the suite of their kind.

    A limit policy has an issue for each rule that it breaks; any other has one, for the first failure.
    """
    return [
        Issue(key, f"{path}: {text}", shown(path), rule=rule)
        for key, path in preset.named_policies().items()
        for rule, text in _broken(key, find_class(path))
    ]


def _broken(key: str, policy: type) -> list[tuple[str | None, str]]:
    """(rule, text) for each violation; the rule is None where it has no name."""
    try:
        return _SUITES[key](policy)
    except FAILURES as error:  # a custom policy may raise anything
        return [(None, f"raised {cause(error)}")]


def _of_limit(policy: type) -> list[tuple[str | None, str]]:
    return [(violation.rule.name, one_line(f"breaks the rule {violation}")) for violation in violations(policy)]


def _by(check: Callable[[type], None]) -> Callable[[type], list[tuple[str | None, str]]]:
    def run(policy: type) -> list[tuple[str | None, str]]:
        try:
            check(policy)
        except AssertionError as error:
            return [(None, one_line(str(error)))]
        return []

    return run


#: The suite for each setting that may hold an import path.
_SUITES: dict[str, Callable[[type], list[tuple[str | None, str]]]] = {
    "ordering.between": _by(check_order),
    "ordering.inside": _by(check_discipline),
    "limit.policy": _of_limit,
    "batching.window": _by(check_window),
}
