"""Checks of the configuration: what a server would refuse to start with, its files, tokens, variables and presets."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from headway.checks.environment import check_environment, check_fixed_reply
from headway.checks.finding import Finding, fail, ok, warn
from headway.checks.start import cautions
from headway.keys import KeysFileError, read_keys_file, unknown_classes
from headway.settings import Environment
from headway_tools.console import UsageError, find_preset, open_catalogue
from headway_tools.doctor.engine_flags import check_engine_flags


def check_configuration(args: Namespace, environment: Mapping[str, str], folder: Path | None) -> Iterator[Finding]:
    """All checks of the configuration, by the arguments of ``vllm serve``; ``folder`` has the operator's presets."""
    start = cautions(args, environment) or [ok("nothing in the arguments or the environment forbids a start")]
    yield from start
    yield from check_engine_flags(args)
    yield from (finding for finding in check_environment(environment) if finding not in start)
    yield from check_presets(environment, folder)


def check_presets(environment: Mapping[str, str], folder: Path | None) -> Iterator[Finding]:
    """Whether all presets can be read, and the one of the start is among them."""
    try:
        catalogue = open_catalogue(folder)
        chosen = find_preset(Environment(environment).preset, catalogue)
    except UsageError as error:
        yield fail(str(error), "correct it, and check with: headway preset validate FILE")
        return
    yield ok(f"{len(list(catalogue))} presets, {chosen.preset.name} at the start ({chosen.source})")
    yield from check_classes(environment, catalogue.class_names())


def check_classes(environment: Mapping[str, str], known: Collection[str]) -> Iterator[Finding]:
    """The classes of the keys file, and of the fixed reply, that no preset has."""
    yield from check_fixed_reply(environment, known)
    path = Environment(environment).keys_file
    if path is None:
        return
    with suppress(KeysFileError):  # a finding of ``check_environment``
        for problem in unknown_classes(read_keys_file(path).ring.tenants.values(), known):
            yield warn(f"keys file {path}: {problem.where}: {problem.what}", problem.remedy)
