"""Ports for servers that go away and come back on the same one."""

import random
import socket


def free_port():
    """A port where nobody listens, and that no outgoing connection is given: those are above 32767.  A port among them
    could be taken in a server's absence, by those who try to reach it."""
    while True:
        port = random.SystemRandom().randrange(16384, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
