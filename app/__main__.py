"""``python -m app serve | migrate | check``: the same settings for each.

``serve`` runs one replica in this process; more replicas are more processes with the same ``DATABASE_URL`` and their own port.
Ctrl-C and SIGTERM drain: not ready, runs handed over, open streams destroyed so that their clients resume elsewhere.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import socket
import sys

import uvicorn

from app.log import cause_chain, configure, get_logger, mask
from app.settings import Settings, SettingsError

log = get_logger("app")


class _Server(uvicorn.Server):
    """Drains while it still listens: a load balancer must see ``not ready``, and clients a typed answer, until the runs are safe."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        from app.main import Running

        running: Running | None = getattr(getattr(self.config.app, "state", None), "running", None)
        try:
            if running is not None:
                await running.drain()
        finally:  # whatever the drain meets: the lifespan ends too, and with it our Postgres
            await super().shutdown(sockets)


def _not_said_already(record: logging.LogRecord) -> bool:
    """What has a line of ours: a destroyed stream, which is raised through the server on purpose, and a start that failed, whose
    traceback is its text."""
    from app.streaming.tail import StreamDestroyed

    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, StreamDestroyed) and not record.getMessage().startswith("Traceback ")


def serve(settings: Settings) -> int:
    """Serves until a signal ends it. Returns the process's exit code."""
    from app.api.connection import Connection
    from app.main import create_app

    app = create_app(settings)
    _can_bind(settings.host, settings.port)
    if settings.database_url is not None:
        asyncio.run(_reach(settings.database_url.get_secret_value()))
    logging.getLogger("uvicorn.error").addFilter(_not_said_already)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config)
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    return 0 if server.started else 1


def _can_bind(host: str, port: int) -> None:
    """Binds once and lets go, before a database is started for nothing. Raises ``SettingsError`` with one line."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error


async def _reach(dsn: str) -> None:
    """Connects once. Raises ``SettingsError`` with one line instead of a traceback out of the start of the server."""
    from app.store.engine import connect
    from app.store.faults import classify

    try:
        connection = await connect(dsn)
    except Exception as error:
        if classify(error) is None and not isinstance(error, ValueError):  # an option that has no such value
            raise
        raise SettingsError(f"DATABASE_URL cannot be used: {cause_chain(error)[0]}") from error
    await connection.close()


async def _migrate(settings: Settings) -> None:
    from app.store.embedded import start_embedded
    from app.store.migrate import head, upgrade

    # Behind a pooler the direct address: migrations hold a lock of their connection's.
    direct = settings.listen_url or settings.database_url
    if direct is not None:
        await _reach(direct.get_secret_value())
        await upgrade(direct.get_secret_value())
    else:
        async with await start_embedded(settings.data_dir) as embedded:
            await upgrade(embedded.url)
    log.info("migrate.passed", schema=head())


def check(settings: Settings) -> int:
    """Builds everything that can be wrong before a start: settings, agents, authentication."""
    from app.main import authenticator, registry

    authenticator(settings)
    agents = registry(settings)
    log.info("check.passed", agents=list(agents.names), default_agent=agents.default)
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m app", description=__doc__)
    parser.add_argument("command", choices=["serve", "migrate", "check"])
    command = parser.parse_args(arguments).command
    from app.agent.registry import RegistryError
    from app.store.embedded import EmbeddedPostgresError

    try:
        settings = Settings()
        configure(settings.log_format, environment=os.environ)
        if command == "serve":
            return serve(settings)
        if command == "migrate":
            asyncio.run(_migrate(settings))
            return 0
        return check(settings)
    except (SettingsError, RegistryError, EmbeddedPostgresError) as error:
        sys.stderr.write(f"{mask(str(error))}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
