"""``headway route`` with settings that cannot be used: one line that names them, exit code 2, and nothing listens."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from running_server import free_port

from headway_tools.cli import main


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder: two certificates with their keys, the key of one with a pass phrase, and a file with other content."""
    pytest.importorskip("cryptography", reason="the certificates are made with it")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("tls")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    from_day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    for one in ("first", "second"):
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        unsigned = unsigned.serial_number(1).not_valid_before(from_day)
        signed = unsigned.not_valid_after(from_day + datetime.timedelta(days=3650)).sign(key, hashes.SHA256())
        (folder / f"{one}.crt").write_bytes(signed.public_bytes(pem))
        (folder / f"{one}.key").write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
        locked = serialization.BestAvailableEncryption(b"phrase")
        (folder / f"{one}.locked").write_bytes(key.private_bytes(pem, pkcs8, locked))
    (folder / "other").write_text("other\n")
    (folder / "empty").write_text("\n")
    return folder


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """The line that ends the command."""
    assert main(["route", "--instances", "http://127.0.0.1:9", "--port", str(free_port()), *words]) == 2
    shown = capfd.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


@pytest.mark.parametrize(
    ("certificate", "key", "says"),
    [
        (None, "first.key", "--ssl-certfile"),
        ("gone", None, "--ssl-certfile {0}/gone: No such file"),
        ("first.crt", "gone", "--ssl-keyfile {0}/gone: No such file"),
        ("first.crt", ".", "--ssl-keyfile {0}/.: Is a directory"),
        ("other", None, "--ssl-certfile: a certificate and its key are needed"),
        ("first.crt", None, "--ssl-certfile: a certificate and its key are needed"),
        ("first.crt", "second.key", "--ssl-certfile and --ssl-keyfile: a certificate and its key are needed"),
        ("first.crt", "first.locked", "without a pass phrase"),
    ],
)
def test_tls_files_that_no_server_can_use(
    certificate: str | None, key: str | None, says: str, files: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Missing, of another kind, not of each other, or with a pass phrase, which nobody is asked for."""
    words = ["--ssl-certfile", f"{files}/{certificate}"] if certificate else []
    words += ["--ssl-keyfile", f"{files}/{key}"] if key else []
    assert says.format(files) in refused(capfd, *words)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HEADWAY_INSTANCE_KEY", "two words", "HEADWAY_INSTANCE_KEY: a key of printable ASCII"),
        ("HEADWAY_INSTANCE_KEY", "sécret", "HEADWAY_INSTANCE_KEY: a key of printable ASCII"),
        ("HEADWAY_INSTANCE_KEY_FILE", "{0}/empty", "HEADWAY_INSTANCE_KEY_FILE ({0}/empty): is empty"),
        ("HEADWAY_INSTANCE_KEY_FILE", "{0}/gone", "HEADWAY_INSTANCE_KEY_FILE ({0}/gone): cannot be read: No such file"),
        ("HEADWAY_INSTANCE_KEY_FILE", "{0}", "HEADWAY_INSTANCE_KEY_FILE ({0}): cannot be read: Is a directory"),
    ],
)
def test_a_key_of_the_instances_that_no_header_can_carry(
    name: str, value: str, says: str, files: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the variable and the file, and does not show the key."""
    monkeypatch.setenv(name, value.format(files))
    line = refused(capfd)
    assert says.format(files) in line
    assert "two words" not in line
    assert "cret" not in line


def test_a_name_needs_the_most_instances(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a preset, and the number to ask for, have no other bound."""
    monkeypatch.delenv("HEADWAY_SCALE_MAX", raising=False)
    assert "HEADWAY_SCALE_MAX: the most instances" in refused(capfd, "--instances", "dns+http://localhost:1")


def test_an_address_that_is_none(capfd: pytest.CaptureFixture[str]) -> None:
    """Wrong usage as well."""
    assert "a URL such as" in refused(capfd, "--instances", "nowhere")
    assert "--fronts: a URL such as" in refused(capfd, "--fronts", "nowhere")
    assert "--fronts: the addresses of all fronts" in refused(capfd, "--fronts", "http://127.0.0.1:9000")


def test_an_instance_that_is_kept_for_a_class_of_no_preset_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    """With the classes that there are."""
    said = refused(capfd, "--instances", "http://127.0.0.1:8=@realtim")
    assert "--instances: there is no class 'realtim'" in said
    assert "did you mean realtime?" in said
