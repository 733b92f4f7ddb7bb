# plfl with its compiled kernel and a CPU build of PyTorch:
#
#   docker build -t plfl .
#   docker run --rm --user "$(id -u)" -v "$PWD:/work" plfl init demo
#   docker run --rm --user "$(id -u)" -v "$PWD:/work" plfl study demo.yaml
FROM python:3.12.11-slim-bookworm
LABEL org.opencontainers.image.source="https://github.com/OWNER/plfl" \
    org.opencontainers.image.licenses="MIT"
# Versions are not pinned: Debian removes older ones.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/plfl
COPY requirements.lock torch.lock ./
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu --requirement torch.lock \
    && pip install --no-cache-dir --no-deps --require-hashes --requirement requirements.lock
COPY . .
RUN pip install --no-cache-dir --no-deps .
ENV HOME=/tmp
WORKDIR /work
USER 1000
ENTRYPOINT ["plfl"]
