"""Keys and certificates for nats-server, made with openssl: nkeys, JWTs of an operator, and TLS."""

import base64
import json
import pathlib
import secrets
import subprocess
import time

KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
SEED = 18 << 3


def openssl(*args, input=None):
    done = subprocess.run(["openssl", *map(str, args)], input=input, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def checksum(data):
    """CRC-16 as XMODEM has it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc.to_bytes(2, "little")


def base32(data):
    return base64.b32encode(data + checksum(data)).decode().rstrip("=")


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Key:
    """An nkey: `public` begins with U, A or O; `seed` with S and that letter."""

    def __init__(self, folder, kind):
        self.kind = kind
        self.file = pathlib.Path(folder) / f"{kind}-{secrets.token_hex(4)}.pem"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.file)
        private = openssl("pkey", "-in", self.file, "-outform", "DER")[-32:]
        public = openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")[-32:]
        number = KINDS[kind]
        self.public = base32(bytes([number]) + public)
        self.seed = base32(bytes([SEED | number >> 5, (number & 31) << 3]) + private)

    def sign(self, data):
        message = self.file.with_suffix(".message")
        message.write_bytes(data)
        return openssl("pkeyutl", "-sign", "-inkey", self.file, "-rawin", "-in", message)

    def token(self, of, name, **claims):
        """A JWT about the key `of`, signed by this one."""
        body = {"jti": secrets.token_hex(16), "iat": int(time.time()), "iss": self.public, "sub": of.public, "name": name,
                "nats": {**claims, "type": of.kind, "version": 2}}
        text = ".".join(base64url(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body))
        return f"{text}.{base64url(self.sign(text.encode()))}"


class Operator:
    """An operator with an account that may use JetStream: `config` is for nats-server."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.key, self.account, self.system = Key(folder, "operator"), Key(folder, "account"), Key(folder, "account")
        free = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
        account = self.key.token(self.account, "swarm", limits={**free, "mem_storage": -1, "disk_storage": -1})
        system = self.key.token(self.system, "system", limits=free)
        self.config = (f'operator: "{self.key.token(self.key, "tests")}"\nsystem_account: {self.system.public}\nresolver: MEMORY\n'
                       f'resolver_preload: {{ {self.account.public}: "{account}", {self.system.public}: "{system}" }}\n')

    def user(self, name):
        """A user of the account: its key and its JWT."""
        key = Key(self.folder, "user")
        return key, self.account.token(key, name, pub={}, sub={}, subs=-1, data=-1, payload=-1)

    def creds(self, name):
        """A user's credentials in a file, as nsc writes it."""
        key, token = self.user(name)
        file = self.folder / f"{name}.creds"
        file.write_text(f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
                        f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n")
        return file


def with_key(key, token=None):
    """How a client says that it has a key: for natsclient.Client(login=...)."""

    def login(info):
        signature = base64url(key.sign(info["nonce"].encode()))
        return {"sig": signature, **({"jwt": token} if token else {"nkey": key.public})}

    return login


class Authority:
    """A certificate authority."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder)
        self.key, self.file = self.folder / f"{name}-key.pem", self.folder / f"{name}.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out", self.file,
                "-days", "2", "-subj", f"/CN={name}")

    def certificate(self, name, *, address="127.0.0.1"):
        """A certificate for a server or client: the files of it and of its key."""
        request, file, key, extra = (self.folder / f"{name}{end}" for end in (".csr", ".pem", "-key.pem", ".ext"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extra.write_text(f"subjectAltName=IP:{address}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", "2", "-extfile", extra, "-out", file)
        return file, key
