# The service in a container: docker build -t assay . && docker run --rm -p 8000:8000 assay
# With a read-only root it needs a small writable /tmp: docker run --read-only --tmpfs /tmp …

# By digest, which Dependabot updates. To build on another base: docker build --build-context base=docker-image://IMAGE .
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS base

FROM base AS build
# Optional features: Arrow streams, zstd bodies, and what `assay prepare` needs. To omit them: --build-arg EXTRAS=
ARG EXTRAS=arrow,prepare,zstd
WORKDIR /src
COPY __init__.py __main__.py py.typed pyproject.toml README.md LICENSE deploy/constraints.txt deploy/kernels.py ./
COPY examples/protocols.toml examples/rollouts.py examples/
COPY kernels kernels
COPY loadtests loadtests
COPY research research
COPY service service
COPY tests/vectors tests/vectors
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && python -m venv /opt/assay \
 && /opt/assay/bin/pip install --no-cache-dir --constraint constraints.txt "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}" \
 && /opt/assay/bin/python -P kernels.py

FROM base
LABEL org.opencontainers.image.title="Assay" \
      org.opencontainers.image.description="Exact SCORE rewards for laboratory protocols over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"

# Kernels for all usual machines are in /opt/assay; on others they are compiled into this folder, if it is writable.
ENV ASSAY_CACHE_DIR=/var/cache/assay \
    ASSAY_HOST=0.0.0.0 \
    PATH=/opt/assay/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

COPY --from=build /opt/assay /opt/assay
RUN install -d -o 65532 -g 65532 /var/cache/assay
USER 65532:65532

EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-I", "-c", "import http.client as h, os, sys; c = h.HTTPConnection('127.0.0.1', int(os.environ.get('ASSAY_PORT', 8000)), timeout=2); c.request('GET', '/readyz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["assay"]
CMD ["serve"]
