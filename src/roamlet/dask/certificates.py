"""Certificates of one cluster: an authority whose key is forgotten at once, and a certificate for each role.

Keys are in memory: those of this process in files that no folder has, those of others on their way over roamlet's links.
"""

import datetime
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed.security import Security

import roamlet_dask_worker as on_target

DAYS = 365
EARLIER = datetime.timedelta(days=1)  # clocks of hosts differ

_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True)
class Certificates:
    """The authority's certificate, and the certificate and key of each role, as PEM."""

    authority: str
    pairs: dict[str, tuple[str, str]] = field(repr=False)

    def of(self, role: str) -> dict[str, str]:
        """What a process of this role gets, for all that it may do: "ca", and "ROLE-cert" and "ROLE-key" for each."""
        certificate, key = self.pairs[role]
        names = {"ca": self.authority}
        for each in on_target.ROLES:
            names[f"{each}-cert"], names[f"{each}-key"] = certificate, key
        return names

    def here(self) -> "InMemory":
        """For this process, which has the client and may have the scheduler."""
        names = {"ca": self.authority}
        for role in on_target.ROLES:
            names[f"{role}-cert"], names[f"{role}-key"] = self.pairs["client" if role == "worker" else role]
        return InMemory(names)


class InMemory(Security):  # type: ignore[misc] # distributed has types for itself alone
    """Dask's Security over files in memory, which close by close(), or when no object refers to it any more."""

    def __init__(self, pems: dict[str, str]) -> None:
        fds = {text: on_target.in_memory("roamlet-dask", text) for text in dict.fromkeys(pems.values())}
        self.close: Callable[[], object] = weakref.finalize(self, _close, list(fds.values()))
        super().__init__(
            **on_target.security_fields({name: f"/proc/self/fd/{fds[text]}" for name, text in pems.items()})
        )


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def made() -> Certificates:
    """New ones, for one cluster. Takes a millisecond."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("authority")
    authority = _builder(name, name, key, key).sign(key, hashes.SHA256())
    pairs = {role: _pair(role, name, key) for role in on_target.ROLES}
    return Certificates(_text(authority), pairs)


def _pair(role: str, issuer: x509.Name, signer: ec.EllipticCurvePrivateKey) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _builder(_name(role), issuer, key, signer).sign(signer, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return _text(certificate), secret.decode()


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    authority = key is signer
    usage = dict.fromkeys(_USES, False) | {"key_cert_sign" if authority else "digital_signature": True}
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("dask-internal")]), critical=False)
    )


def _name(what: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"roamlet-dask {what}")])


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
