"""What the tests of the server share: see tests/station.py.  `server` is a server without tokens on a fresh data directory;
`serve` starts one as a test wants it."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from station import (BUILD, DENIED, ONCE, PATIENCE, PROGRAM, ROOT, SANITIZER, TIMEOUT, TWICE, Answer, Server, check_program,
                     environment, serve, wait_until)

pytest_sessionstart = check_program


@pytest.fixture
def server(serve):
    return serve()
