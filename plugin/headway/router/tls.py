"""The files of a router's own TLS."""

from __future__ import annotations

import ssl

from headway.errors import HeadwayError


def check_tls(certificate: str | None, key: str | None) -> None:
    """Check the files of a TLS server. Raises HeadwayError in one line. A pass phrase is not asked for."""
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
