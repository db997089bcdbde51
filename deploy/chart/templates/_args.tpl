{{/* A flag for each value that is not null: dict of flag and value, in the order of the flags' names. */}}
{{- define "servingcert.flags" }}
{{- range $flag, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
{{ list (printf "--%s=%v" $flag $value) | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{/* A flag that is given once for each value of a list: list of flag and values. */}}
{{- define "servingcert.repeated" }}
{{- $flag := index . 0 }}
{{- range index . 1 }}
{{ list (printf "--%s=%s" $flag .) | toYaml }}
{{- end }}
{{- end }}

{{/* Flags that all processes have. */}}
{{- define "servingcert.commonArgs" }}
- --log-format={{ .Values.logFormat }}
{{- if ne .Values.logLevel "info" }}
- --log-level={{ .Values.logLevel }}
{{- end }}
{{- if ne (include "servingcert.namespace" .) "servingcert-system" }}
- --namespace={{ include "servingcert.namespace" . }}
{{- end }}
{{- if ne .Values.clusterDomain "cluster.local" }}
- --cluster-domain={{ .Values.clusterDomain }}
{{- end }}
{{- if .Values.kubeAPIQPS }}
- --kube-api-qps={{ int64 .Values.kubeAPIQPS }}
{{- end }}
{{- if .Values.openshiftCompat }}
- --openshift-compat
{{- end }}
{{- end }}

{{- define "servingcert.signerArgs" }}
{{- include "servingcert.commonArgs" . }}
{{- include "servingcert.flags" (dict
  "instance" .Values.signer.instance
  "cluster-id" .Values.clusterId
  "workers" .Values.signer.workers
  "ca-duration" .Values.ca.duration
  "ca-soak" .Values.ca.soak
  "ca-refusal-grace" .Values.ca.refusalGrace
  "ca-reissue-window" .Values.ca.reissueWindow
  "default-duration" .Values.certificates.defaultDuration
  "min-duration" .Values.certificates.minDuration
  "max-duration" .Values.certificates.maxDuration
  "pod-max-duration" .Values.certificates.podMaxDuration
  "cluster-ip-duration" .Values.certificates.clusterIPDuration
  "secret-issue-burst" .Values.limits.secretIssueBurst
  "secret-issue-interval" .Values.limits.secretIssueInterval
  "namespace-reissue-burst" .Values.limits.namespaceReissueBurst
  "namespace-reissue-interval" .Values.limits.namespaceReissueInterval) }}
{{- include "servingcert.repeated" (list "permit-dns-suffix" .Values.certificates.permitDNSSuffixes) }}
{{- if .Values.certificates.permitClusterIPs }}
- --permit-cluster-ips
{{- end }}
{{- if .Values.certificates.permitRSA4096 }}
- --permit-rsa4096
{{- end }}
{{- if not .Values.certificates.csr }}
- --csr=false
{{- end }}
{{- with .Values.identities.trustDomain }}
- --trust-domain={{ . }}
{{- end }}
{{- with .Values.kubeletServing }}{{ if .approve }}
- --approve-kubelet-serving
{{- with .nodeCIDRs }}
- --node-cidrs={{ join "," . }}
{{- end }}
{{- with .nodeDNSSuffixes }}
- --node-dns-suffixes={{ join "," . }}
{{- end }}
{{- end }}{{ end }}
{{- with .Values.remoteCA }}{{ if .urls }}
{{- include "servingcert.repeated" (list "cfssl-url" .urls) }}
- --cfssl-auth-key-file=/etc/cfssl/{{ .authKey }}
- --cfssl-ca=/etc/cfssl/{{ .ca }}
{{- with .clientCert }}
- --cfssl-client-cert=/etc/cfssl/{{ . }}
{{- end }}
{{- with .clientKey }}
- --cfssl-client-key=/etc/cfssl/{{ . }}
{{- end }}
{{- with .bundle }}
- --cfssl-bundle=/etc/cfssl/{{ . }}
{{- end }}
{{- include "servingcert.flags" (dict
  "cfssl-profile" .profile
  "cfssl-profile-rsa" .profileRSA
  "cfssl-label" .label
  "cfssl-timeout" .timeout) }}
{{- end }}{{ end }}
{{- with .Values.caIssuer }}{{ if .issuer }}
- --ca-issuer={{ .issuer }}
{{- with .roots }}
- --ca-issuer-roots={{ . }}
{{- end }}
{{- end }}{{ end }}
{{- with .Values.signer.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The rotator of one name: list of root and trust or rotator. */}}
{{- define "servingcert.rotatorArgs" }}
{{- $root := index . 0 }}
{{- include "servingcert.commonArgs" $root }}
{{- if eq (index . 1) "trust" }}
- --controllers=trust
{{- include "servingcert.trustArgs" $root }}
{{- else }}
- --controllers=pods
{{- include "servingcert.podsArgs" $root }}
{{- end }}
{{- with (index $root.Values (index . 1)).extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "servingcert.trustArgs" }}
{{- with .Values.trust }}
{{- if lt (len .targets) 7 }}
- --targets={{ join "," .targets }}
{{- end }}
{{- if .publicRoots.configMap }}
- --public-roots=/etc/public-roots/{{ .publicRoots.key }}
{{- end }}
{{- if .backendTLSPolicies }}
- --backend-tls-policies
{{- end }}
{{- include "servingcert.flags" (dict
  "max-backoff" .maxBackoff
  "workers" .workers) }}
{{- end }}
{{- end }}

{{- define "servingcert.podsArgs" }}
{{- with .Values.consumers }}
{{- if not .verify }}
- --verify-consumers=false
{{- end }}
{{- if not .wake }}
- --wake=false
{{- end }}
{{- with .podCIDRs }}
- --pod-cidrs={{ join "," . }}
{{- end }}
{{- include "servingcert.flags" (dict
  "verify-interval" .verifyInterval
  "propagation-time" .propagationTime
  "probe-concurrency" .probeConcurrency
  "probe-timeout" .probeTimeout
  "wake-rate" .wakeRate
  "max-restarts" .maxRestarts) }}
{{- end }}
{{- end }}

{{- define "servingcert.webhookArgs" }}
{{- include "servingcert.commonArgs" . }}
{{- with .Values.webhook }}
- --cert-dir=/etc/servingcert
- --port={{ .port }}
{{- if ne (int64 .metricsPort) 8443 }}
- --metrics-addr=:{{ .metricsPort }}
{{- end }}
{{- if ne (int64 .healthPort) 8081 }}
- --health-addr=:{{ .healthPort }}
{{- end }}
{{- include "servingcert.flags" (dict "default-mode" .defaultMode "unknown-programs" .unknownPrograms) }}
{{- if $.Values.trust.publicRoots.configMap }}
- --public-roots
{{- end }}
{{- with $.Values.identities.trustDomain }}
- --trust-domain={{ . }}
{{- end }}
{{- if $.Values.proxy.enabled }}
- --proxy-image={{ include "servingcert.image" (list $ "proxy") }}
{{- with $.Values.proxy.image.pullSecrets }}
{{- $names := list }}{{ range . }}{{ $names = append $names .name }}{{ end }}
- --proxy-pull-secrets={{ join "," $names }}
{{- end }}
{{- $amounts := list }}
{{- range $kind, $list := $.Values.proxy.resources }}
{{- range $name, $amount := $list }}
{{- if not (kindIs "invalid" $amount) }}{{ $amounts = append $amounts (printf "%s.%s=%v" $kind $name $amount) }}{{ end }}
{{- end }}
{{- end }}
{{- with $amounts }}
- --proxy-resources={{ join "," . }}
{{- end }}
{{- end }}
{{- if .clientCA.configMapName }}
- --client-ca-file=/etc/servingcert-clients/ca.crt
{{- with .clientCA.names }}
- --client-names={{ join "," . }}
{{- end }}
{{- end }}
{{- with .extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
