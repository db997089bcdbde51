#!/usr/bin/env bash
# What a user of step-ca does: its server on this machine, with a CA that is made once, a certificate of it for a name,
# which is renewed for the same key from the second time on, and a Secret of both, which is created or replaced.
set -euo pipefail
dir=$(realpath -m "$1") kubectl=$2 namespace=$3 secret=$4 name=$5
address=127.0.0.1:19443
mkdir -p "$dir"
GOWORK=off GOFLAGS= CGO_ENABLED=0 go build -C ../../hack/node/build/step-ca -trimpath -o "$dir/step-ca" .
cd "$dir"
export STEPPATH=$PWD/step
mkdir -p step issued
./step-ca serve "$address" &>server.log &
server=$!
trap 'kill $server' EXIT
curl --silent --show-error --insecure --retry 30 --retry-connrefused --retry-delay 1 --output /dev/null "https://$address/health"
cd issued
../step-ca issue "$address" "$name"
"$kubectl" create secret generic "$secret" -n "$namespace" --type=kubernetes.io/tls --from-file=tls.crt --from-file=tls.key --from-file=ca.crt \
	--dry-run=client -o yaml | "$kubectl" apply -f -
