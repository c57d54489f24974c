"""Keys, tokens and certificates for a NATS server of the tests, made with openssl alone.

An nkey is base32 of a prefix, an Ed25519 key and a CRC-16; a JWT of NATS is signed with one.
"""

import base64
import json
import subprocess

PREFIX = {"seed": 18 << 3, "user": 20 << 3, "account": 0, "operator": 14 << 3}


def openssl(*args, input=None):
    return subprocess.run(["openssl", *map(str, args)], input=input, check=True, capture_output=True, timeout=60).stdout


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def encode(data):
    return base64.b32encode(data + crc16(data).to_bytes(2, "little")).decode().rstrip("=")


def urlsafe(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Key:
    """An nkey of a user, an account or an operator."""

    def __init__(self, directory, kind="user", name="key"):
        self.pem = directory / f"{name}.pem"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.pem)
        private = openssl("pkey", "-in", self.pem, "-outform", "DER")[-32:]
        public = openssl("pkey", "-in", self.pem, "-pubout", "-outform", "DER")[-32:]
        prefix = PREFIX[kind]
        self.public = encode(bytes([prefix]) + public)
        self.seed = encode(bytes([PREFIX["seed"] | prefix >> 5, (prefix & 31) << 3]) + private)
        self.scratch = directory / f"{name}.signed"

    def sign(self, text):
        self.scratch.write_text(text)
        return urlsafe(openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.pem, "-in", self.scratch))

    def token(self, claims):
        """A JWT with these claims."""
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = ".".join(urlsafe(json.dumps(part).encode()) for part in (head, {"iss": self.public, "iat": 1, **claims}))
        return f"{text}.{self.sign(text)}"


def operator_setup(directory):
    """The configuration of a server with an operator, an account with JetStream and one user; the file of the user's
    credentials; and how a client of the tests logs in with them."""
    operator, account, system, user = (
        Key(directory, kind, name) for kind, name in
        [("operator", "operator"), ("account", "account"), ("account", "system"), ("user", "user")])
    unlimited = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
    storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}

    def account_token(key, limits):
        return operator.token({"sub": key.public, "name": "A", "nats": {"type": "account", "version": 2, "limits": limits}})

    (directory / "operator.jwt").write_text(operator.token(
        {"sub": operator.public, "name": "O", "nats": {"type": "operator", "version": 2, "system_account": system.public}}))
    token = account.token({"sub": user.public, "name": "U", "nats": {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1}})
    creds = (f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
             f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n")
    config = (f'operator: "{directory}/operator.jwt"\nresolver: MEMORY\nsystem_account: {system.public}\n'
              f"resolver_preload {{\n  {account.public}: {account_token(account, {**unlimited, **storage})}\n"
              f"  {system.public}: {account_token(system, unlimited)}\n}}\n")
    return config, creds, lambda info: {"jwt": token, "sig": user.sign(info["nonce"])}


def certificates(directory, host="IP:127.0.0.1"):
    """ca.pem, and server.pem and client.pem with their keys, signed by it."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test authority",
            "-keyout", directory / "ca.key", "-out", directory / "ca.pem")
    for name in ["server", "client"]:
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.csr")
        (directory / "extensions").write_text(f"subjectAltName={host}\n")
        openssl("x509", "-req", "-days", "2", "-in", directory / f"{name}.csr", "-CA", directory / "ca.pem", "-CAkey", directory / "ca.key",
                "-CAcreateserial", "-extfile", directory / "extensions", "-out", directory / f"{name}.pem")
