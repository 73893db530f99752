from tests.inprocess.fixtures import faulty, fresh_agents, logs, serve, server

__all__ = ["faulty", "fresh_agents", "logs", "serve", "server"]
