"""Log lines: without the content of requests, and as JSON objects on request.

    content_records   which arguments and exceptions of a log line are hidden
    hidden            what may be shown of an argument
    tracebacks        a traceback without the messages of its exceptions
    json_lines        a JSON object in each line

The package knows no logger by name: those of vLLM are listed in ``headway.vllm_adapter.log_privacy``.
"""

from headway.logs.content_records import ContentRecords, ContentRules
from headway.logs.json_lines import JsonLines

__all__ = ["ContentRecords", "ContentRules", "JsonLines"]
