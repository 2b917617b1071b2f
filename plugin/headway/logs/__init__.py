"""Log lines: without the content of requests, and as JSON objects on request.

    content_records   which arguments and exceptions of a log line are hidden
    hidden            what may be shown of an argument
    tracebacks        a traceback without the messages of its exceptions
    json_lines        a JSON object in each line
    last_warnings     the last warnings and errors, kept in memory

The package knows no logger by name: those of vLLM are listed in ``headway.vllm_adapter.logs.privacy``.
"""

from headway.logs.content_records import ContentRecords, ContentRules
from headway.logs.json_lines import JsonLines
from headway.logs.last_warnings import keep_last_warnings, last_warnings

__all__ = ["ContentRecords", "ContentRules", "JsonLines", "keep_last_warnings", "last_warnings"]
