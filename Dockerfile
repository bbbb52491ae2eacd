# The image of py-scheduler, for amd64 and arm64. All packages are installed from wheels. The image contains
# the base's interpreter with its libraries, the packages, and nothing else: no shell, no pip, no apt.
# (`kubectl debug` adds a shell to a running pod.)
#
#   docker build -t py-scheduler .
#
# A release pins the base by digest and labels the image; the same arguments give the same layers:
#
#   docker build -t py-scheduler:0.1.0 \
#     --build-arg BASE_IMAGE=python:3.13-slim-bookworm@sha256:<digest of the index> \
#     --build-arg VERSION=0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" \
#     --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" .
#
# (`docker buildx imagetools inspect python:3.13-slim-bookworm` prints the digest.) A base needs Python 3.11
# or newer as python3, with venv and pip, and dpkg. If packages come from a mirror, or through a CA of your
# own, pass pip's configuration and the certificates as build secrets; neither is stored in a layer:
#
#   DOCKER_BUILDKIT=1 docker build --secret id=pip,src=pip.conf --secret id=ca,src=ca.crt .

ARG BASE_IMAGE=python:3.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
WORKDIR /build

# Only wheels, so that no compiler is needed, and only those with a known hash.
COPY constraints-build.txt constraints-runtime.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca.crt \
    python3 -m venv /opt/tools \
    && python3 -m venv --without-pip /opt/py-scheduler \
    && /opt/tools/bin/python -m pip install --quiet --no-compile \
        --require-hashes --only-binary=:all: -r constraints-build.txt \
    && /opt/tools/bin/python -m pip --python /opt/py-scheduler/bin/python install --quiet --no-compile \
        --require-hashes --only-binary=:all: -r constraints-runtime.txt

COPY pyproject.toml README.md LICENSE hack/image_root.py ./
COPY scheduler scheduler
ARG SOURCE_DATE_EPOCH=315532800
# Of the official client, only configuration and credentials are used: its APIs and models, and their
# asynchronous versions, would be a quarter of the image. Bytecode is not checked against modification times
# of files, so it is the same in every build.
RUN /opt/tools/bin/python -m pip wheel --quiet --no-index --no-deps --no-build-isolation -w /build/wheel . \
    && /opt/tools/bin/python -m pip --python /opt/py-scheduler/bin/python install --quiet --no-compile \
        --no-index --no-deps /build/wheel/*.whl \
    && cd /opt/py-scheduler/lib/python3*/site-packages \
    && rm -rf kubernetes/aio numpy/f2py numpy/distutils tzdata tzdata-* \
    && find kubernetes/client/api kubernetes/client/models -name '*_*.py' ! -name '__init__.py' -delete \
    && find numpy -depth -type d -name tests -exec rm -rf {} + \
    && find . -name '*_test.py' -delete \
    && find . -name '*.pyi' -delete \
    && find . -depth -type d -name __pycache__ -exec rm -rf {} + \
    && python3 /build/image_root.py /staging /opt/py-scheduler \
    && chroot /staging /opt/py-scheduler/bin/python -c 'import numpy, kubernetes.config.kube_config, scheduler.app, scheduler.crds.watching' \
    && find /staging -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM scratch
ARG BASE_IMAGE
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="py-scheduler" \
      org.opencontainers.image.description="A Kubernetes secondary scheduler in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/py-scheduler/py-scheduler" \
      org.opencontainers.image.documentation="https://github.com/py-scheduler/py-scheduler/tree/main/docs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
ENV PATH=/opt/py-scheduler/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt LANG=C.UTF-8
COPY --from=build /staging/ /
# A number, because with runAsNonRoot the kubelet cannot resolve a name.
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["py-scheduler"]
CMD ["run"]
