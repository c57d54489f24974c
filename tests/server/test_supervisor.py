"""What a supervisor such as systemd sees: readiness, the end, a socket that it passes, and SIGHUP."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess

import station
import pytest
from conftest import PATIENCE, PROGRAM, environment, wait_until

# Passes the descriptor of its first argument as systemd does, and becomes the program.
PASS = """#!/usr/bin/python3
import os
os.dup2(int(os.environ.pop("PASS_FD")), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="lazaret.socket")
os.execv(os.environ["PASS_TO"], [os.environ["PASS_TO"], *__import__("sys").argv[1:]])
"""


class Notified:
    """A socket that a supervisor would listen on for states."""

    def __init__(self, place):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + place[1:] if place.startswith("@") else place)
        self.socket.settimeout(PATIENCE)

    def next(self):
        """The next state, as a dict."""
        return dict(line.split("=", 1) for line in self.socket.recv(65536).decode().splitlines())

    def nothing(self):
        self.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            self.socket.recv(65536)


@pytest.fixture(params=["path", "abstract"])
def place(request, tmp_path):
    return str(tmp_path / "notify") if request.param == "path" else f"@lazaret-test-{os.getpid()}-{id(request)}"


def test_readiness_and_the_end_are_told(serve, place):
    told = Notified(place)
    server = serve(env={"NOTIFY_SOCKET": place})
    state = told.next()
    assert state["READY"] == "1" and server.url in state["STATUS"]
    server.get("/readyz").expect(200)
    server.signal(signal.SIGTERM)
    assert told.next()["STOPPING"] == "1"
    assert server.wait() == 0
    told.nothing()


def test_a_server_that_does_not_become_ready_does_not_say_so(serve, tmp_path):
    told = Notified(str(tmp_path / "notify"))
    server = serve()
    second = subprocess.run([PROGRAM, "serve", "--data", str(server.data), "--listen", "127.0.0.1:0"], timeout=PATIENCE,
                            env=environment(tmp_path, {"NOTIFY_SOCKET": tmp_path / "notify"}), capture_output=True)
    assert second.returncode == 5
    told.nothing()


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0), backlog=20) as listener:
        yield listener


@pytest.fixture
def passing(tmp_path, monkeypatch):
    """Has the program started as one that is passed a descriptor: the variables for that are returned."""
    script = tmp_path / "pass"
    script.write_text(PASS)
    script.chmod(0o755)
    monkeypatch.setattr(station, "PROGRAM", str(script))

    def variables(fd):
        return {"env": {"PASS_FD": fd, "PASS_TO": os.path.abspath(PROGRAM)}, "pass_fds": [fd]}

    return variables


def ask(address):
    """A request that is sent and not yet answered."""
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    connection.request("GET", "/healthz")
    return connection


def test_a_passed_socket_is_served_also_who_came_before_the_server(serve, listening, passing):
    early = ask(listening.getsockname())
    server = serve(listen=None, **passing(listening.fileno()))
    assert early.getresponse().status == 200
    early.close()
    assert server.port == listening.getsockname()[1]
    server.get("/healthz").expect(200)


def test_a_passed_socket_wins_over_the_address(serve, listening, passing):
    server = serve(listen="127.0.0.1:1", **passing(listening.fileno()))
    assert server.port == listening.getsockname()[1]


def test_who_comes_while_the_server_restarts_is_answered_by_the_next(serve, listening, passing):
    server = serve(listen=None, **passing(listening.fileno()))
    job = server.push()
    server.stop()
    early = ask(listening.getsockname())
    server.start()
    assert early.getresponse().status == 200
    early.close()
    assert server.get(f"/api/v1/jobs/{job}").expect(200)["state"] == "pending"


def test_what_is_no_listening_socket_is_refused(serve, passing, tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        variables = passing(datagrams.fileno())
        done = subprocess.run([station.PROGRAM, "serve", "--data", str(tmp_path / "data")], capture_output=True, text=True,
                              env=environment(tmp_path, variables["env"]), pass_fds=variables["pass_fds"], timeout=PATIENCE)
    assert done.returncode == 2 and "listening stream socket" in done.stderr


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="systemd-socket-activate is not installed")
def test_systemd_activates_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    activator = subprocess.Popen(
        ["systemd-socket-activate", "-l", f"127.0.0.1:{port}", PROGRAM, "serve", "--data", str(tmp_path / "data")],
        env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        wait_until(lambda: listens(port), "a listening socket")
        first = ask(("127.0.0.1", port))
        assert first.getresponse().status == 200
        first.close()
        assert activator.stdout.readline() == f"lazaret: ready on http://127.0.0.1:{port}\n"
    finally:
        activator.terminate()
    assert activator.wait(PATIENCE) == 0
    activator.stdout.close()


def listens(port):
    """Whether a socket listens there, found without connecting: the first connection is what activates."""
    with open("/proc/net/tcp") as table:
        return any(line.split()[1] == f"0100007F:{port:04X}" and line.split()[3] == "0A" for line in table)


def test_the_access_log_is_opened_anew_by_sighup(serve, tmp_path):
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    server = serve("--access-log", log)
    server.get("/healthz?token=hunter2").expect(400)
    wait_until(log.read_text, "the line of the first request")
    log.rename(moved)
    server.signal(signal.SIGHUP)
    wait_until(log.exists, "the file that is opened anew")
    server.post("/api/v1/jobs", {"action": "a", "job_id": "j1"}).expect(201)
    server.stop()
    [before] = [json.loads(line) for line in moved.read_text().splitlines()]
    assert before["path"] == "/healthz?token=[masked]" and before["status"] == 400
    [after] = [json.loads(line) for line in log.read_text().splitlines()]
    assert (after["method"], after["route"], after["status"]) == ("POST", "/api/v1/jobs", 201)
    assert after["bytes_in"] > 0 and after["bytes_out"] > 0 and after["ms"] >= 0
    assert after["id"] and after["id"] != before["id"] and after["peer"] == "127.0.0.1"
