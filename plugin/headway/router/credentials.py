"""The credentials of a router: the key that the instances get, and the files of its own TLS."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from headway.api.secret_text import SecretFileError, find_secret, is_one_word
from headway.errors import HeadwayError

INSTANCE_KEY: Final = "HEADWAY_INSTANCE_KEY"


def instance_key(environment: Mapping[str, str]) -> str | None:
    """The key of the instances, None where there is none. Raises HeadwayError in one line, which does not show it."""
    try:
        secret = find_secret(INSTANCE_KEY, environment)
    except SecretFileError as error:
        raise HeadwayError(str(error)) from None
    if secret is None:
        return None
    key = secret.text.strip()
    if not key or not is_one_word(key):
        raise HeadwayError(f"{secret.source}: printable ASCII characters without blanks are needed")
    return key


def check_tls(certificate: str | None, key: str | None) -> None:
    """Raises HeadwayError in one line for files that no TLS server can use. A pass phrase is not asked for."""
    if certificate is None:
        if key is not None:
            raise HeadwayError("--ssl-keyfile: the certificate is needed as well, with --ssl-certfile")
        return
    for option, path in (("--ssl-certfile", certificate), ("--ssl-keyfile", key)):
        _check_readable(option, path)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
    except OSError:  # ssl's own are of this kind; their words are OpenSSL's, with a line of its source
        place = "--ssl-certfile" if key is None else "--ssl-certfile and --ssl-keyfile"
        raise HeadwayError(f"{place}: a certificate and its key are needed, in PEM, without a pass phrase") from None


def _check_readable(option: str, path: str | None) -> None:
    try:
        if path is not None:
            with open(path, "rb"):
                pass
    except OSError as error:
        raise HeadwayError(f"{option} {path}: {error.strerror}") from None
