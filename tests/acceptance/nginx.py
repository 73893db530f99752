"""The shipped proxy configuration in front of replicas on loopback: only what Docker would add is replaced."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.acceptance.replica import ROOT, Replica, free_port

_NGINX = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream replicas {{ {servers} }}
{shipped}
}}
"""


def configuration(folder: Path, port: int, replicas: Sequence[Replica]) -> str:
    """The file that is shipped, with loopback in the place of Docker's names and its log."""
    shipped = (ROOT / ".container" / "nginx.conf").read_text()
    for pattern, replacement in (
        (r"resolver .*;", ""),
        (r"listen 8080;", f"listen 127.0.0.1:{port};"),
        (r"access_log .*;", f"access_log {folder}/access.log request;"),
        (r"set \$replicas .*;", ""),
        (r"proxy_pass .*;", "proxy_pass http://replicas;"),
    ):
        shipped, count = re.subn(pattern, replacement, shipped)
        assert count == 1, f"the shipped nginx.conf has no longer one {pattern}"
    # Docker's names are resolved again and again, so a replica that failed is asked again at once
    servers = " ".join(f"server 127.0.0.1:{replica.port} max_fails=0;" for replica in replicas)
    return _NGINX.format(folder=folder, servers=servers, shipped=shipped)


@contextmanager
def nginx(folder: Path, replicas: Sequence[Replica]) -> Iterator[str]:
    """Runs it. Yields its address."""
    port = free_port()
    place = folder / "nginx"
    place.mkdir()
    file = place / "nginx.conf"
    file.write_text(configuration(place, port, replicas))
    with (place / "output").open("wb") as output:
        process = subprocess.Popen(
            ["nginx", "-e", f"{place}/nginx-error.log", "-p", str(place), "-c", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process, place)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], place: Path) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            httpx2.get(f"{url}/health/live", trust_env=False, timeout=5)
            return
        except httpx2.TransportError:
            said = (place / "output").read_text()
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.03)
