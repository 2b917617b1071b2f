"""Checks of the configuration before a server listens: reasons not to start, and reasons for a warning.

Each finding is one line: what is wrong, where, and what to do. The checks read the parsed arguments of ``vllm serve``
and the environment, and import nothing of vLLM, so that ``headway doctor`` makes the same checks without a server.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any, Final

from headway.api import is_loopback
from headway.checks.finding import Finding, Severity, fail, failures, warn, wrong
from headway.errors import HeadwayError
from headway.release import vllm_version
from headway.settings import Environment

log = logging.getLogger(__name__)

#: Has vLLM start its front end in Rust.
RUST: Final = "VLLM_USE_RUST_FRONTEND"

_OLDEST_VLLM = (0, 28)
_OLDEST_STARLETTE = (1, 0, 1)
_DEV_ROUTES = "/pause, /sleep, /abort_requests, /collective_rpc and others"
#: Flags of ``--data-parallel-``: each server has some of the ranks, and something else divides the requests.
_OTHER_BALANCERS = ("external-lb", "multi-port-external-lb", "hybrid-lb", "rank", "start-rank")
#: Flags of vLLM's own port that Headway's does not have.
_OF_VLLM_PORT = ("uds", "root_path", "ssl_ca_certs", "ssl_cert_reqs", "enable_ssl_refresh", "headless")
#: Connectors of vLLM that move the KV blocks of a request from the server of its prefill to that of its decode.
_SPLITS = frozenset(("NixlConnector", "NixlPullConnector", "NixlPushConnector", "MooncakeConnector", "MoRIIOConnector"))
_KEYS_FILE = Environment.keys_file.name

_Checks = Iterator[Finding]


def check_start(args: Namespace, environment: Mapping[str, str] = os.environ) -> None:
    """Log the warnings. Raises HeadwayError, in one line, where the server must not start."""
    found = refusals(args, environment)
    if found:
        raise HeadwayError("; ".join(found))
    for warning in warnings(args, environment):
        log.warning("%s", warning)


def refusals(args: Namespace, environment: Mapping[str, str]) -> list[str]:
    """The reasons why a server with these arguments must not start; empty: it may start."""
    return failures(cautions(args, environment))


def warnings(args: Namespace, environment: Mapping[str, str]) -> list[str]:
    """The warnings to the operator of a server that may start."""
    return [str(caution) for caution in cautions(args, environment) if caution.severity is Severity.WARN]


def cautions(args: Namespace, environment: Mapping[str, str]) -> list[Finding]:
    """All findings, in the order of the checks; a variable that a check cannot read is a finding, too."""
    found = list[Finding]()
    for check in CHECKS:
        try:
            found.extend(check(args, environment))
        except HeadwayError as error:
            found.append(wrong(error))
    return found


def uses_rust(environment: Mapping[str, str]) -> bool:
    """Whether vLLM is to start its front end in Rust, a process of its own that loads no plugin."""
    return _on(environment, RUST)


def rust_front_end(environment: Mapping[str, str]) -> Finding | None:
    """The finding of a front end in Rust without a queue of Headway's in front of it."""
    if not uses_rust(environment) or Environment(environment).behind_queue:
        return None
    what = f"{RUST}=1 starts a front end that loads no plugin: it would bypass Headway"
    return fail(what, f"start it with headway serve, or unset {RUST}")


def inference_keys(args: Namespace, environment: Mapping[str, str]) -> list[str]:
    """vLLM's own keys, as vLLM finds them: those of ``--api-key``, else the variable's."""
    return [key for key in (getattr(args, "api_key", None) or [environment.get("VLLM_API_KEY")]) if key]


def _check_versions(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    vllm, starlette = vllm_version(), _version_of("starlette")
    if _older(vllm, _OLDEST_VLLM):
        what = f"vLLM {vllm} is older than 0.28, and lacks what Headway's admission control needs"
        yield fail(what, "install vLLM 0.28 or later")
    if _older(starlette, _OLDEST_STARLETTE):
        what = f"Starlette {starlette} takes the path of a request from its Host header (CVE-2026-48710)"
        yield fail(what, "install starlette>=1.0.1")


def _check_front_ends(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    rust = rust_front_end(environment)
    if rust is not None and not getattr(args, "behind_one_queue", False):
        yield rust
    if getattr(args, "grpc", False):
        what = "--grpc starts a server that loads no HTTP plugin: it would bypass Headway"
        yield fail(what, "remove --grpc")


def _check_data_parallel(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    """The findings about data parallelism beyond several ranks on this machine behind one API server."""

    def given(name: str) -> Any:
        return getattr(args, f"data_parallel_{name}", None)

    ranks = given("size") or 1
    flags = {name: given(name.replace("-", "_")) for name in _OTHER_BALANCERS}
    other = [f"--data-parallel-{name}" for name, value in flags.items() if value is not None and value is not False]
    if other:
        what = f"{other[0]} gives the ranks to several servers, whose seats nothing would count together"
        yield fail(what, "remove it; headway route is one queue in front of several servers")
    if getattr(args, "enable_elastic_ep", False):
        what = "--enable-elastic-ep changes the number of ranks while the server runs, which Headway does not follow"
        yield fail(what, "remove it")
    if ranks <= 1:
        return
    if given("backend") not in (None, "mp"):
        what = f"--data-parallel-backend {given('backend')} starts ranks that Headway cannot replace or supervise"
        yield fail(what, "remove it: the ranks are processes of this machine then")
    if given("size_local") not in (None, ranks) or (getattr(args, "nnodes", None) or 1) > 1:
        what = "the ranks of --data-parallel-size are on several machines, which Headway does not supervise"
        yield fail(what, "start a server on each machine, and headway route in front of them")
    if (getattr(args, "api_server_count", None) or 1) > 1 and not Environment(environment).behind_queue:
        what = f"{args.api_server_count} API servers for {ranks} ranks: each would give out all seats of all ranks"
        yield fail(what, "add --api-server-count 1, or start it with headway serve: one queue for all of them")


def _check_api_servers(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    """The findings about vLLM's launcher behind a queue, whose public port is Headway's; and about several API servers
    without one.
    """
    found, count = Environment(environment), getattr(args, "api_server_count", None) or 1
    if not (found.behind_queue or getattr(args, "behind_one_queue", False)):
        if count > 1 and found.batch_dir is not None:
            what = f"{Environment.batch_dir.name} is a folder of one server, and these are {count} API servers"
            yield fail(what, "start them with headway serve, one queue for all, or add --api-server-count 1")
        return
    for name in _OF_VLLM_PORT:
        if getattr(args, name, None):
            what = f"--{name.replace('_', '-')} cannot be used with several API servers or a front end in Rust"
            yield fail(what, f"remove it, or add --api-server-count 1 and unset {RUST}")


def _check_prefill_decode_split(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    """The finding about a server that has one half of each request: a seat is free when its half is done, while its KV
    blocks wait for another server, which a retry and a new engine would leave without them.
    """
    config = getattr(args, "kv_transfer_config", None)
    extra = _setting(config, "kv_connector_extra_config") or {}
    for connector in (config, *(extra.get("connectors") or ())):
        name, role = _setting(connector, "kv_connector"), _setting(connector, "kv_role")
        if name in _SPLITS or role in ("kv_producer", "kv_consumer"):
            what = f"--kv-transfer-config ({name}, {role}) splits prefill and decode between servers"
            yield fail(what, "remove it: headway route divides whole requests; or serve without Headway")
            return


def _check_dev_mode(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    if not _on(environment, "VLLM_SERVER_DEV_MODE"):
        return
    what = f"VLLM_SERVER_DEV_MODE=1 mounts routes that stop and change the engine ({_DEV_ROUTES})"
    if not Environment(environment).allow_dev_mode:
        advice = f"unset it, or set {Environment.allow_dev_mode.name}=1 on a server that listens on 127.0.0.1 only"
        yield fail(what, advice)
    elif _is_public(args):
        yield fail(f"{what}, and the server listens {_where(args)}", "add --host 127.0.0.1")
    else:
        yield warn(what, "they want the operator's token; unset it in production")


def _check_serialisation(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    if _on(environment, "VLLM_ALLOW_INSECURE_SERIALIZATION"):
        what = "VLLM_ALLOW_INSECURE_SERIALIZATION=1 lets messages between processes run code (pickle)"
        yield fail(what, "unset VLLM_ALLOW_INSECURE_SERIALIZATION")


def _check_stored_responses(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    if _on(environment, "VLLM_ENABLE_RESPONSES_API_STORE") and Environment(environment).keys_file is not None:
        what = "VLLM_ENABLE_RESPONSES_API_STORE=1 keeps the responses of all tenants in one store: each can read them"
        yield fail(what, f"unset it, or serve one tenant without {_KEYS_FILE}")


def _check_tokens(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    """The findings about a token that cannot be used, or is an inference key, or crosses a network."""
    keys, found = inference_keys(args, environment), Environment(environment)
    for secret in (found.admin_token, found.viewer_token):
        if secret is not None and any(secrets.compare_digest(secret.text.encode(), key.encode()) for key in keys):
            what = f"{secret.source}: the token is also an inference key (--api-key or VLLM_API_KEY)"
            yield fail(what, "use another one: openssl rand -hex 32")
    if found.admin_token is not None and _is_public(args) and not getattr(args, "ssl_certfile", None):
        what = f"the admin API is on and listens {_where(args)} without TLS"
        yield warn(what, "add --host 127.0.0.1, or --ssl-certfile and --ssl-keyfile, or a TLS proxy")


def _check_keys(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    if Environment(environment).keys_file is not None:
        return
    if inference_keys(args, environment):
        what = f"{_KEYS_FILE} is not set: every client with the --api-key is one tenant and has every class"
        advice = "give each client a key of its own: headway keys add --tenant NAME"
    else:
        what = (
            f"{_KEYS_FILE} is not set, and there is no --api-key: every client is the tenant anonymous, with the "
            "default class, the less urgent ones and caps"
        )
        advice = "make keys with: headway keys add --tenant NAME, or list a proxy in HEADWAY_TRUSTED_PROXIES"
    yield warn(what, advice)


def _check_drain(args: Namespace, environment: Mapping[str, str]) -> _Checks:
    if getattr(args, "shutdown_timeout", None) == 0:
        what = "--shutdown-timeout 0: running requests are cut off when the server is stopped"
        yield warn(what, "give a time in seconds, such as --shutdown-timeout 30")


CHECKS: Final[tuple[Callable[[Namespace, Mapping[str, str]], _Checks], ...]] = (
    _check_versions, _check_front_ends, _check_data_parallel, _check_api_servers,
    _check_prefill_decode_split, _check_dev_mode, _check_serialisation,
    _check_stored_responses, _check_tokens, _check_keys, _check_drain,
)  # fmt: skip


def _on(environment: Mapping[str, str], variable: str) -> bool:
    """Whether a variable switches something on; vLLM reads such variables as whole numbers."""
    return environment.get(variable, "").strip() not in ("", "0")


def _setting(config: Any, name: str) -> Any:
    """A setting of a configuration that vLLM has parsed into an object, or left as JSON."""
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _is_public(args: Namespace) -> bool:
    """Whether other machines can reach the server."""
    return not getattr(args, "uds", None) and not is_loopback(getattr(args, "host", None) or "")


def _where(args: Namespace) -> str:
    host = getattr(args, "host", None)
    return f"on {host}" if host else "on every address of this machine"


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _older(version: str, oldest: tuple[int, ...]) -> bool:
    """Whether a version is older; an unknown one is not, nor a build without a release ("0.1.dev7+g1a2b3c")."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return found is not None and "dev" not in version and tuple(map(int, found[0].split("."))) < oldest
