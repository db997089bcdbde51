{{/* The namespace of servingcert. */}}
{{- define "servingcert.namespace" -}}
{{ .Values.namespace.name | default .Release.Namespace }}
{{- end }}

{{/* The ServiceAccount of one process: list of root and its name. */}}
{{- define "servingcert.serviceAccountName" -}}
{{ (index (index . 0).Values (index . 1)).serviceAccount.name }}
{{- end }}

{{/* Who the API server knows this ServiceAccount as: list of root and the process. */}}
{{- define "servingcert.username" -}}
system:serviceaccount:{{ include "servingcert.namespace" (index . 0) }}:{{ include "servingcert.serviceAccountName" . }}
{{- end }}

{{/* The image of one process: list of root and its name. Process trust is the rotator, too. */}}
{{- define "servingcert.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index $root.Values (eq (index . 1) "trust" | ternary "rotator" (index . 1))).image -}}
{{- $tag := $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion -}}
{{ $image.registry | default $root.Values.image.registry }}/{{ $image.repository }}:{{ $tag }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The value of a setting for one process, else that of pods: list of root, process and key; as YAML. */}}
{{- define "servingcert.setting" -}}
{{- $root := index . 0 -}}
{{- $own := index (index $root.Values (index . 1)) (index . 2) -}}
{{- if kindIs "invalid" $own }}{{ $own = index $root.Values.pods (index . 2) }}{{ end -}}
{{- if $own }}{{ toYaml $own }}{{ end }}
{{- end }}

{{/* Labels of the pods of one process besides those that select them: list of root and its name. */}}
{{- define "servingcert.podLabels" -}}
{{- $root := index . 0 -}}
{{- with merge (dict) (index $root.Values (index . 1)).podLabels $root.Values.pods.labels }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "servingcert.podAnnotations" -}}
{{- $root := index . 0 -}}
{{- with merge (dict) (index $root.Values (index . 1)).podAnnotations $root.Values.pods.annotations }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* What the pods of all processes have in their spec before the volumes: list of root and the process. */}}
{{- define "servingcert.podSpec" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $process := index $root.Values $name -}}
serviceAccountName: {{ include "servingcert.serviceAccountName" . }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "servingcert.setting" (list $root $name "priorityClassName") }}
priorityClassName: {{ . }}
{{- end }}
enableServiceLinks: false
{{- if not (kindIs "invalid" $process.terminationGracePeriodSeconds) }}
terminationGracePeriodSeconds: {{ $process.terminationGracePeriodSeconds }}
{{- end }}
{{- with include "servingcert.setting" (list $root $name "nodeSelector") }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "servingcert.setting" (list $root $name "tolerations") }}
tolerations:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "servingcert.setting" (list $root $name "affinity") }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- with $root.Values.pods.securityContext }}
securityContext: # fsGroup is who may read the keys in volumes
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.pods.topologySpread }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels: {app.kubernetes.io/part-of: servingcert, app.kubernetes.io/name: {{ $name }}}
  {{- end }}
{{- end }}
{{- end }}

{{/* What all containers have between the probes and the end: list of root and the process. */}}
{{- define "servingcert.container" -}}
{{- $root := index . 0 -}}
{{- $process := index $root.Values (index . 1) -}}
{{- with $process.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $process.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.pods.containerSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Whether the rotator keeps the bundle in one of these kinds of target: list of root and kinds. */}}
{{- define "servingcert.hasTarget" -}}
{{- $targets := (index . 0).Values.trust.targets -}}
{{- range rest . }}{{ if has . $targets }}true{{ end }}{{ end -}}
{{- end }}

{{/* Names of the webhook configurations of one kind whose caBundle may be written; none: all of them: list of root and the kind's key in trust. */}}
{{- define "servingcert.webhookNames" -}}
{{- $trust := (index . 0).Values.trust -}}
{{- if ne $trust.webhooks "all" }}
{{- $names := index $trust (index . 1) -}}
{{- if eq (index . 1) "mutatingWebhookConfigurations" }}{{ $names = prepend $names "servingcert" }}{{ end -}}
resourceNames: [{{ $names | join ", " }}]
{{- end }}
{{- end }}

{{/* Whether the rotator may restart workloads. */}}
{{- define "servingcert.restarts" -}}
{{- if and .Values.consumers.verify (ne (toString .Values.consumers.maxRestarts) "0") }}true{{ end -}}
{{- end }}

{{/* The seconds of a duration as Go writes it. */}}
{{- define "servingcert.seconds" -}}
{{- $units := dict "ns" 0.000000001 "us" 0.000001 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit . | float64) (get $units $unit)) -}}
{{- end -}}
{{- $seconds -}}
{{- end }}
