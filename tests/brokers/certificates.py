"""A certificate authority for the length of a test."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

STORE_PASSWORD = "penstock"


class Authority:
    """Signs server certificates; clients trust it through `ca`.

    Two authorities do not know each other: a certificate of the second is a stranger's to clients
    that trust the first.
    """

    def __init__(self, folder: Path, name: str = "penstock-test-ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        public = self._key.public_key()
        self._certificate = (
            self._builder(self._name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca.write_bytes(_pem(self._certificate))

    def issue(self, *hosts: str) -> "Issued":
        """A certificate for these host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        identity = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(_named(hosts[0]), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(names, critical=False)
            .add_extension(identity, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Issued(self, hosts[0], key, certificate)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=2))
            .not_valid_after(now + datetime.timedelta(days=2))
        )


class Issued:
    """A certificate and its key, in the forms that servers want them in."""

    def __init__(
        self,
        by: Authority,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        certificate: x509.Certificate,
    ) -> None:
        self.certificate = by.folder / f"{name}.pem"
        self.key = by.folder / f"{name}.key"
        self.keystore = by.folder / f"{name}.p12"
        self.both = by.folder / f"{name}.both.pem"
        chain = _pem(certificate) + by.ca.read_bytes()
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self.certificate.write_bytes(chain)
        self.key.write_bytes(secret)
        self.both.write_bytes(secret + chain)
        sealed = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        self.keystore.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), key, certificate, [by._certificate], sealed
            )
        )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
