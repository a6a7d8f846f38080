# The README's two commands in a container; docs/first_run.md shows them. `make repro` is the default, `make test` the other one.
FROM python:3.12-slim-bookworm

# What Python packages do not bring: make and git for both commands, the rest for tests that otherwise are skipped.
# The distribution's current versions are right: they only get security fixes.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends chromium git make postgresql wordnet-base \
    && rm -rf /var/lib/apt/lists/*

# PostgreSQL and Chromium's sandbox refuse root.
RUN useradd --create-home --uid 1000 caramel && mkdir /home/caramel/project && chown caramel /home/caramel/project
USER 1000
WORKDIR /home/caramel/project
COPY --chown=caramel . .

# Packages are installed from the lock files, by hash. The cache stays outside of the image.
RUN --mount=type=cache,target=/home/caramel/.cache,uid=1000 make dev
CMD ["make", "repro"]
