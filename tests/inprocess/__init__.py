"""The real application in the test's own event loop: driven through ASGI chunk by chunk, on a real Postgres.

- ``asgi``    one exchange with an ASGI application: read what it sends as it sends it, leave when you want
- ``server``  the application with its lifespan; SQL at its database; its log lines; a crash
- ``chat``    what a stock client does: posts its messages, folds what it is sent, fills in answers
- ``agents``  scripted agents with tools that wait for the test
- ``faults``  a store whose transactions fail where the test says
"""
