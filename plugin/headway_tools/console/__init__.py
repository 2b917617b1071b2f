"""The common parts of the commands: options, exit codes, tables, preset look-up, and the checks before a server starts.

Each command has a module in ``headway_tools.cli``.
"""

from headway_tools.console.bar import Bar
from headway_tools.console.connection import connect
from headway_tools.console.exits import (
    INTERRUPTED,
    CliError,
    Exit,
    FailedError,
    ServerUnreachableError,
    TokenError,
    UsageError,
    as_cli_error,
)
from headway_tools.console.installation import install_command
from headway_tools.console.known_presets import absolute, find_preset, is_file_name, open_catalogue, preset_dir
from headway_tools.console.machine import Machine, cpu_backend, read_machine
from headway_tools.console.metrics_page import check_lines, fetch_metrics
from headway_tools.console.output import check_folder, csv_text, warn, write_file
from headway_tools.console.parser import (
    Parser,
    add_command,
    add_json,
    add_url,
    formatter,
    port,
    positive,
    seconds,
    time_span,
    variable_lines,
    whole,
)
from headway_tools.console.preflight import VLLM_PORT, has_vllm, missing_dashboard_packages, try_bind
from headway_tools.console.serve_flags import DEFAULT_PRESET, ServeWords, has, model_of, split, value_of, with_defaults
from headway_tools.console.table import milliseconds, setting_text, table

__all__ = [
    "DEFAULT_PRESET",
    "INTERRUPTED",
    "VLLM_PORT",
    "Bar",
    "CliError",
    "Exit",
    "FailedError",
    "Machine",
    "Parser",
    "ServeWords",
    "ServerUnreachableError",
    "TokenError",
    "UsageError",
    "absolute",
    "add_command",
    "add_json",
    "add_url",
    "as_cli_error",
    "check_folder",
    "check_lines",
    "connect",
    "cpu_backend",
    "csv_text",
    "fetch_metrics",
    "find_preset",
    "formatter",
    "has",
    "has_vllm",
    "install_command",
    "is_file_name",
    "milliseconds",
    "missing_dashboard_packages",
    "model_of",
    "open_catalogue",
    "port",
    "positive",
    "preset_dir",
    "read_machine",
    "seconds",
    "setting_text",
    "split",
    "table",
    "time_span",
    "try_bind",
    "value_of",
    "variable_lines",
    "warn",
    "whole",
    "with_defaults",
    "write_file",
]
