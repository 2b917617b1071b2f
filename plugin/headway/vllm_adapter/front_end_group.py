"""The process of a group: one engine with several API servers of vLLM, which ``headway serve`` starts.

Run as ``python -m headway.vllm_adapter.front_end_group DESCRIPTOR COUNT WORDS...``: the words are those of ``vllm
serve``. It writes JSON lines to the descriptor, which its parent reads:

    {"settings": {...}}    once, before anything is started: the ports, and what the parent has to know of the arguments
    {"lost": 1}            an API server has ended; what it ran in the engine is aborted
    {"dead": "..."}        the engine, or the last API server, has ended: this process is about to
    {"error": "..."}       it does not start, in one line
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headway.errors import HeadwayError
from headway.vllm_adapter.endpoint import warn_of_flags
from headway.vllm_adapter.front_end import ABORT_ROUTE, KEY
from headway.vllm_adapter.front_end_processes import (
    EngineEndedError,
    Reports,
    loopback_sockets,
    run_api_servers,
)
from headway.vllm_adapter.launch import cause_of_failure, parse, set_up_log, silence_resource_trackers
from headway.vllm_adapter.log_format import log_as_vllm_does, log_json_lines
from headway.vllm_adapter.process.progress import keep_progress
from headway.vllm_adapter.start_checks import check_start, inference_keys

#: What is the parent's alone.
_SECRETS: Final = (
    "VLLM_API_KEY", "HEADWAY_ADMIN_TOKEN", "HEADWAY_ADMIN_TOKEN_FILE", "HEADWAY_VIEWER_TOKEN",
    "HEADWAY_VIEWER_TOKEN_FILE", "HEADWAY_KEYS_FILE", "HEADWAY_FALLBACK_API_KEY", "HEADWAY_FALLBACK_API_KEY_FILE",
)  # fmt: skip
_ABORT_WITHIN_S: Final = 5.0
_ABORT_AGAIN_S: Final = 1.0


class Channel:
    """The lines to the parent. One that has ended reads none, which is no fault of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def send(self, **message: Any) -> None:
        """One line."""
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except OSError:
            return


def closing(descriptor: int) -> Callable[[], None]:
    """Closes the descriptor in a child. In a child of that one its number may be another file's: nothing is closed."""
    open_here = [descriptor]

    def close() -> None:
        while open_here:
            os.close(open_here.pop())

    return close


def main(words: Sequence[str]) -> int:
    """Serve until the engine has ended, or a signal came; returns the exit code."""
    channel, count = Channel(descriptor := int(words[0])), int(words[1])
    os.register_at_fork(after_in_child=closing(descriptor))  # so that the messages end with this process
    try:
        _serve(words[2:], count, channel)
    except EngineEndedError:
        return 1
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


def _serve(words: Sequence[str], count: int, channel: Channel) -> None:
    args = parse(words)
    set_up_log(args)
    log_json_lines()
    log_as_vllm_does()
    check_start(args, os.environ)
    warn_of_flags(args)
    sockets = loopback_sockets(count)
    ports = [one.getsockname()[1] for one in sockets]
    channel.send(settings={"ports": ports, **_settings(args, os.environ)})
    for name in _SECRETS:
        os.environ.pop(name, None)
    silence_resource_trackers()
    keep_progress()
    args.api_server_count = count
    args.api_key = args.ssl_certfile = args.ssl_keyfile = None
    args.disable_uvicorn_access_log = True  # of the heartbeat, mostly
    args.host, args.port = "127.0.0.1", 0  # of the socket that vLLM shares, which nothing listens on
    reports = Reports(LostServers(channel, ports).report, lambda why: channel.send(dead=why))
    run_api_servers(args, sockets, reports)


def _settings(args: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    names = getattr(args, "served_model_name", None)
    return {
        "host": args.host or "",
        "port": args.port,
        "ssl_certfile": args.ssl_certfile,
        "ssl_keyfile": args.ssl_keyfile,
        "drain_s": args.shutdown_timeout,
        "api_keys": inference_keys(args, environment),
        "model": str(names[0] if names else args.model),
        "prompt_embeds": bool(getattr(args, "enable_prompt_embeds", False)),
    }


class LostServers:
    """Reports API servers that have ended. Those before it are asked for nothing more: their ports still take
    connections, since this process has the sockets."""

    def __init__(self, channel: Channel, ports: Sequence[int]) -> None:
        self._channel = channel
        self._left = dict(enumerate(ports))

    def report(self, lost: int) -> None:
        """Tell the parent, and have the engine drop what that API server ran there: in a thread, nothing waits for it.

        It runs a second or two, unless the API servers that are asked hang.
        """
        self._channel.send(lost=lost)
        self._left.pop(lost, None)
        others = list(self._left.values())
        threading.Thread(target=_abort, args=[lost, others], name="headway-abort-lost", daemon=True).start()


def _abort(lost: int, ports: Sequence[int]) -> None:
    """Twice, since messages of the lost one may still be on their way to the engine when it aborts."""
    for _ in range(2):
        for port in ports:
            if _post(port, f"{ABORT_ROUTE}?client={lost}"):
                break
        time.sleep(_ABORT_AGAIN_S)


def _post(port: int, target: str) -> bool:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=_ABORT_WITHIN_S)
    try:
        client.request("POST", target, headers={"Authorization": f"Bearer {os.environ[KEY]}"})
        return client.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


if __name__ == "__main__":
    # By its name, which the processes that are spawned import, and not as __main__.
    from headway.vllm_adapter.front_end_group import main as run

    sys.exit(run(sys.argv[1:]))
