#!/usr/bin/env bash
# What a person does who has openssl and kubectl: a CA in a directory, made once, a certificate of it for a name, by the
# detour of a PKCS #12 file as a security department sends it, and a Secret of both, which is created or replaced.
set -euo pipefail
dir=$1 kubectl=$2 namespace=$3 secret=$4 name=$5
mkdir -p "$dir"
cd "$dir"
if [ ! -e ca.crt ]; then
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -days 30 -subj "/CN=security department"
fi
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout new.key -out new.csr -subj "/CN=$name"
openssl x509 -req -in new.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out new.crt -days 20 -extfile <(printf 'subjectAltName=DNS:%s\n' "$name")
openssl pkcs12 -export -in new.crt -inkey new.key -out sent.p12 -passout pass:sent
openssl pkcs12 -in sent.p12 -passin pass:sent -nokeys -out tls.crt
openssl pkcs12 -in sent.p12 -passin pass:sent -nocerts -nodes -out tls.key
"$kubectl" create secret generic "$secret" -n "$namespace" --type=kubernetes.io/tls --from-file=tls.crt --from-file=tls.key --from-file=ca.crt \
	--dry-run=client -o yaml | "$kubectl" apply -f -
