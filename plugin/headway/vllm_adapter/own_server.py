"""vLLM's own launcher, as the child process behind the queue of ``headway serve`` (``headway.own_server``).

Run as ``python -m headway.vllm_adapter.own_server DESCRIPTOR SOCKET WORDS...``: the words are those of ``vllm serve``,
which listens on the Unix socket and nowhere else. The process writes JSON lines to the descriptor for its parent:

    {"settings": {...}}    once, before anything is started: what the parent has to know of the arguments
    {"engine": {...}}      what the engine is, when it is being started
    {"error": "..."}       the reason, in one line, why the server does not start
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from headway.checks.start import check_start, inference_keys
from headway.errors import HeadwayError
from headway.settings import SECRET_NAMES, Environment
from headway.vllm_adapter.endpoint import adapter_names, model_names, warn_of_flags
from headway.vllm_adapter.engine_adapter import VllmAdapter
from headway.vllm_adapter.launch import cause_of_failure, command, parse, set_up_log, silence_resource_trackers
from headway.vllm_adapter.logs.format import log_as_vllm_does, log_json_lines
from headway.vllm_adapter.process.progress import keep_progress
from headway.vllm_adapter.process.ranks import ranks_of

#: (module, name) of the class with which vLLM starts every engine process of a server; the contract tests read it.
STARTER: Final = ("vllm.v1.engine.utils", "CoreEngineProcManager")
#: Variables with secrets, which only the parent may have.
_SECRETS: Final = ("VLLM_API_KEY", Environment.keys_file.name, *SECRET_NAMES)


class Channel:
    """The lines to the parent. A parent that has ended reads none, which is no fault of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)
        os.register_at_fork(after_in_child=_closing(descriptor))  # so that the messages end with this process

    def send(self, **message: Any) -> None:
        """Write one line."""
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except OSError:
            return


def _closing(descriptor: int) -> Callable[[], None]:
    """A function that closes the descriptor in a child, once: in a child of that the number may be another file's."""
    open_here = [descriptor]

    def close() -> None:
        while open_here:
            os.close(open_here.pop())

    return close


def main(words: Sequence[str]) -> int:
    """Serve until the engine or an API server has ended, or a signal came; returns the exit code."""
    channel = Channel(int(words[0]))
    try:
        _serve(words[2:], words[1], channel)
    except SystemExit as ended:  # of the parser with its code, of a signal without one
        return ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:
        return 0
    except HeadwayError as error:
        channel.send(error=str(error))
        return 1
    except Exception as error:
        channel.send(error=f"the engine did not start: {cause_of_failure(error)}")
        return 1
    return 0


def _serve(words: Sequence[str], socket: str, channel: Channel) -> None:
    args = parse(words)
    set_up_log(args)
    log_json_lines()
    log_as_vllm_does()
    check_start(args, os.environ)
    warn_of_flags(args)
    channel.send(settings=_settings(args, os.environ))
    for name in _SECRETS:
        os.environ.pop(name, None)
    silence_resource_trackers()
    keep_progress()
    report_engine(channel.send)
    args.api_key = args.ssl_certfile = args.ssl_keyfile = args.host = None
    args.disable_uvicorn_access_log = True  # of the heartbeat, mostly
    args.uds = socket
    command()(args)


def report_engine(send: Callable[..., None]) -> None:
    """Have ``send(engine=...)`` called when vLLM starts its engine, whose configuration is known then."""
    manager = getattr(importlib.import_module(STARTER[0]), STARTER[1])
    start = manager.__init__

    def report_and_start(self: Any, *arguments: Any, **options: Any) -> None:
        send(engine=engine_facts(options["vllm_config"]))
        start(self, *arguments, **options)

    manager.__init__ = report_and_start


def engine_facts(config: Any) -> dict[str, Any]:
    """The facts that the parent has to know of an engine with this configuration of vLLM."""
    adapter, engine = VllmAdapter(), SimpleNamespace(vllm_config=config)
    settings = adapter.settings(engine)
    return {
        "seats": adapter.engine_seats(engine),
        "ranks": ranks_of(config),
        "device": str(config.device_config.device_type),
        "fingerprint": adapter.fingerprint(engine),
        "dtype": settings.dtype,
        "quantization": settings.quantization,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "max_model_len": settings.max_model_len,
        "step_tokens": settings.step_tokens,
        "max_loras": settings.max_loras,
    }


def _settings(args: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        "host": args.host or "",
        "port": args.port,
        "ssl_certfile": args.ssl_certfile,
        "ssl_keyfile": args.ssl_keyfile,
        "drain_s": args.shutdown_timeout,
        "api_keys": inference_keys(args, environment),
        "names": model_names(args),
        "adapters": adapter_names(args),
        "prompt_embeds": bool(getattr(args, "enable_prompt_embeds", False)),
    }


if __name__ == "__main__":
    # Imported by its name, as spawned processes import it, and not as __main__.
    from headway.vllm_adapter.own_server import main as run

    sys.exit(run(sys.argv[1:]))
