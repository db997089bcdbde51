# One image for each process, by target: docker build --target signer .
# (make image builds the three).

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags '-s -w' -o /out/ ./cmd/webhook ./cmd/signer ./cmd/rotator

# Nothing but the binary: no shell, no package manager, no user but a number.
# The only server that the processes trust is the API server, by the CA that
# Kubernetes mounts, so there are no root certificates either.
FROM scratch AS base
USER 65532:65532

FROM base AS webhook
COPY --from=build /out/webhook /webhook
ENTRYPOINT ["/webhook"]

FROM base AS signer
COPY --from=build /out/signer /signer
ENTRYPOINT ["/signer"]

FROM base AS rotator
COPY --from=build /out/rotator /rotator
ENTRYPOINT ["/rotator"]
