"""The service as it is deployed: real processes, a real nginx in front of three replicas, a Postgres that may die.

- ``postgres``   a Postgres of the test's own, to be stopped, killed, paused and started again
- ``replica``    ``python -m app serve`` as a process: its signals, its log, what it holds open
- ``releases``   the release before this one, laid out beside it
- ``nginx``      the shipped proxy configuration, in front of replicas on loopback
- ``talk``       what a client does: sends, reads frames as they come, leaves, resumes, answers
- ``scripts``    scripted turns (``app.agent.scripted``) and the agents with tools that leave a trace
- ``facts``      what must hold afterwards: rows, the outbox, the logs
- ``monkey``     many sessions, while replicas and Postgres come and go
"""
