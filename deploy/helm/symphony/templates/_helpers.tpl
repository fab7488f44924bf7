{{/* The names of all objects begin so. */}}
{{- define "symphony.name" -}}
{{- if contains "symphony" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-symphony" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "symphony.labels" -}}
app.kubernetes.io/name: symphony
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "symphony.metaLabels" -}}
{{ include "symphony.labels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "symphony.image" -}}
{{- $i := index .root.Values.images .image -}}
{{- if $i.digest }}{{ printf "%s@%s" $i.repository $i.digest }}{{ else }}{{ printf "%s:%s" $i.repository $i.tag }}{{ end }}
{{- end }}

{{/* The schedulers as everybody names them: stable names of the StatefulSet's pods. Of several, a group:
with + between them where they are dialled, a list where a scheduler is told of the others. */}}
{{- define "symphony.members" -}}
{{- $name := printf "%s-scheduler" (include "symphony.name" .) -}}
{{- range $i := until (int .Values.scheduler.replicas) }}{{ if $i }} {{ end }}{{ printf "tcp:%s-%d.%s:9000" $name $i $name }}{{ end }}
{{- end }}

{{- define "symphony.group" -}}
{{ include "symphony.members" . | splitList " " | join "+" }}
{{- end }}

{{- define "symphony.grace" -}}
{{ add (int .Values.drainSeconds) (int .Values.sloMaxSeconds) (int .Values.lameDuckSeconds) 10 }}
{{- end }}

{{/* What all pods have. */}}
{{- define "symphony.pod" -}}
automountServiceAccountToken: false
# Variables like SYMPHONY_SCHEDULER_PORT, which Kubernetes makes of Services, would be read as configuration.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "symphony.grace" .root }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "symphony.labels" $ | nindent 8 }}
{{- end }}
{{- end }}

{{/* Of a container: nothing but what it needs. With RDMA the binary that may pin memory is run: the
capability is on the file, as Kubernetes gives no ambient ones to who is not root. */}}
{{- define "symphony.security" -}}
{{- $locks := and .locks .root.Values.rdma.enabled .root.Values.rdma.ipcLock -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: {{ $locks }}
capabilities:
  drop: [ALL]
  {{- if $locks }}
  add: [IPC_LOCK]
  {{- end }}
{{- end }}

{{- define "symphony.command" -}}
{{- if and .locks .root.Values.rdma.enabled .root.Values.rdma.ipcLock -}}
["/usr/local/bin/symphony-rdma"]
{{- else -}}
["/usr/local/bin/symphony"]
{{- end }}
{{- end }}

{{- define "symphony.token" -}}
- name: SYMPHONY_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .Values.token.secret }}, key: token}}
{{- end }}

{{- define "symphony.podName" -}}
- name: {{ . }}
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}

{{/* A container's resources: what the values say, RDMA, huge pages and GPUs. */}}
{{- define "symphony.resources" -}}
{{- $limits := deepCopy (.values.resources.limits | default dict) -}}
{{- $requests := deepCopy (.values.resources.requests | default dict) -}}
{{- if and .locks .root.Values.rdma.enabled }}{{ $limits = mergeOverwrite $limits (deepCopy .root.Values.rdma.resources) }}{{ end -}}
{{- if and .pages (ne (toString .root.Values.hugepages2Mi) "0") }}{{ $_ := set $limits "hugepages-2Mi" .root.Values.hugepages2Mi }}{{ end -}}
{{- if .values.gpus }}{{ $_ := set $limits .values.gpuResource .values.gpus }}{{ end -}}
{{- with .values.extraResources }}{{ $limits = mergeOverwrite $limits (deepCopy .) }}{{ end -}}
{{ toYaml (dict "requests" $requests "limits" $limits) }}
{{- end }}

{{/* Probes at the address of /metrics. Started: models are loaded. Alive: the loops turn. */}}
{{- define "symphony.probes" -}}
startupProbe:
  httpGet: {path: /startupz, port: metrics}
  periodSeconds: 5
  failureThreshold: {{ .tries }}
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end }}

{{- define "symphony.mounts" -}}
- {name: config, mountPath: /etc/symphony, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "symphony.volumes" -}}
- name: config
  configMap: {name: {{ include "symphony.name" .root }}-config, items: [{key: {{ .file }}, path: symphony.yaml}]}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- end }}

{{/* Annotations of pods: a change of their configuration starts them again. */}}
{{- define "symphony.podAnnotations" -}}
checksum/config: {{ include .define (dict "root" .root "values" .values) | sha256sum }}
{{- if .locks }}
{{- with .root.Values.rdma.annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- with .values.annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}
