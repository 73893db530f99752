from tests.inprocess.fixtures import fresh_agents, logs, serve, server

__all__ = ["fresh_agents", "logs", "serve", "server"]
