"""Certificates for tests of TLS: a fixture that makes them once."""

import subprocess
from pathlib import Path

import pytest


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority (ca.pem), a server's certificate for roamlet.test and its key, and a client's."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    ca = ("-subj", "/CN=a test's authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(folder, "req", "-x509", *key, *ca, "-days", "2", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name in ("server", "client"):
        openssl(folder, "req", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / f"{name}.ext").write_text("subjectAltName=DNS:roamlet.test\n")
        signed = ("-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        openssl(folder, "x509", "-req", *signed, "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    return folder
