"""Completion of the command in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from headway_tools.console.exits import UsageError
from headway_tools.console.installation import install_command

SHELLS = ("bash", "zsh", "fish")


class PrintCompletion(argparse.Action):
    """Print a shell's completion of all commands and their options, and end.

    The script is fixed: a start of the command takes too long to be waited for at each press of the key.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Raises UsageError without shtab."""
        try:
            import shtab
        except ImportError:
            raise UsageError(f"completion needs shtab; install it with: {install_command('tools')}") from None
        print(shtab.complete(parser, shell=str(values)))
        parser.exit()
