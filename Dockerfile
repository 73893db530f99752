# Two stages: packages are installed in the first, and the second has them without the tools that install.

FROM python:3.13-slim AS packages
WORKDIR /build
COPY pyproject.toml requirements.lock ./
# uv and everything else at the versions and hashes of requirements.lock; only what the service needs at run time
RUN awk '/^uv==/,/# via/' requirements.lock > uv.lock \
    && pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --require-hashes --requirement uv.lock
RUN python -m venv --without-pip /opt/venv \
    && uv pip install --python /opt/venv/bin/python --no-cache --no-build --compile-bytecode \
        --require-hashes --constraints requirements.lock --requirements pyproject.toml

FROM python:3.13-slim
RUN groupadd --gid 10001 agent && useradd --uid 10001 --gid agent --home-dir /data --no-create-home agent \
    && install --directory --owner=agent --group=agent /data
WORKDIR /srv
COPY --from=packages /opt/venv /opt/venv
COPY pyproject.toml ./
COPY migrations ./migrations
COPY app ./app

# Everything that is written goes to /data (outbox, embedded Postgres) and /tmp: the root may be read-only.
# Authentication has to be chosen, since the address can be reached: the service says so and does not start.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    AGENT_SERVER_HOST=0.0.0.0 \
    AGENT_SERVER_PORT=8000 \
    AGENT_SERVER_DATA_DIR=/data \
    AGENT_SERVER_LOG_FORMAT=json
VOLUME /data
USER agent
EXPOSE 8000

# Alive, not ready: a database that is away is no reason to replace the process.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --start-interval=1s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['AGENT_SERVER_PORT']}/health/live\", timeout=4)"]

# exec form: the service is process 1 and SIGTERM drains it
ENTRYPOINT ["python", "-m", "app"]
CMD ["serve"]
