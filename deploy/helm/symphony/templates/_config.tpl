{{/* The configuration files, a part each: what the chart needs, over it what the values say. */}}
{{- define "symphony.config.common" -}}
{{- $c := dict "drain" (printf "%ds" (int .Values.drainSeconds)) "metrics" "0.0.0.0:9100" -}}
{{- $_ := set $c "rdma" (dict "mode" (ternary .Values.rdma.mode "never" .Values.rdma.enabled)) -}}
{{ toYaml (mergeOverwrite $c (deepCopy .Values.config)) }}
{{- end }}

{{- define "symphony.config.scheduler" -}}
{{- $c := include "symphony.config.common" .root | fromYaml -}}
{{- $s := dict "listen" (list "tcp:0.0.0.0:9000") -}}
{{- if gt (int .root.Values.scheduler.replicas) 1 }}{{ $_ := set $s "standby" (include "symphony.members" .root | splitList " ") }}{{ end -}}
{{- with .root.Values.scheduler.heartbeat }}{{ $_ := set $s "heartbeat" . }}{{ end -}}
{{- $_ := set $c "scheduler" (mergeOverwrite $s (deepCopy .values.config)) -}}
{{ toYaml $c }}
{{- end }}

{{- define "symphony.config.frontend" -}}
{{- $c := include "symphony.config.common" .root | fromYaml -}}
{{- $f := dict "scheduler" (include "symphony.group" .root) "listen" "tcp:0.0.0.0:4000" "http" "0.0.0.0:8000" "grpc" "0.0.0.0:8001" "admin" "127.0.0.1:8004" -}}
{{- if .root.Values.controller.enabled }}{{ $_ := set $f "control" (printf "http://%s-controller:8002" (include "symphony.name" .root)) }}{{ end -}}
{{- $_ := set $c "frontend" (mergeOverwrite $f (deepCopy .values.config)) -}}
{{ toYaml $c }}
{{- end }}

{{- define "symphony.config.controller" -}}
{{- $c := include "symphony.config.common" .root | fromYaml -}}
{{- $k := dict "scheduler" (include "symphony.group" .root) "http" "0.0.0.0:8002" -}}
{{- if eq .root.Values.scaling.by "keda" }}{{ $_ := set $k "keda" (printf "0.0.0.0:%d" (int .root.Values.scaling.keda.port)) }}{{ end -}}
{{- if ne .root.Values.scaling.by "none" }}{{ $_ := set $k "autoscale" (include "symphony.autoscale" .root | fromYaml) }}{{ end -}}
{{- with .values.etcd -}}
{{- if .endpoints }}
{{- $_ := set $k "endpoints" .endpoints -}}
{{- if .tlsSecret }}{{ $_ := set $k "ca" "/etc/etcd-tls/ca.crt" }}{{ $_ := set $k "cert" "/etc/etcd-tls/tls.crt" }}{{ $_ := set $k "key" "/etc/etcd-tls/tls.key" }}{{ end -}}
{{- if .user }}{{ $_ := set $k "user" .user }}{{ $_ := set $k "password_file" "/etc/etcd-password/password" }}{{ end -}}
{{- else }}{{ $_ := set $k "data" "/var/lib/symphony" }}{{ end -}}
{{- end -}}
{{- $_ := set $c "control" (mergeOverwrite $k (deepCopy .values.config)) -}}
{{ toYaml $c }}
{{- end }}

{{- define "symphony.config.backend" -}}
{{- $c := include "symphony.config.common" .root | fromYaml -}}
{{- $b := dict "scheduler" (include "symphony.group" .root) "pools" (list .values.pool) "cache" "/var/cache/symphony" "cache_size" (include "symphony.cacheSize" .values.cacheSize) -}}
{{- if or .values.repository.claim .values.repository.hostPath }}{{ $_ := set $b "repository" .values.repository.path }}{{ end -}}
{{- $_ := set $c "backend" (mergeOverwrite $b (deepCopy .values.config)) -}}
{{ toYaml $c }}
{{- end }}

{{/* Kubernetes writes 20Gi, the configuration 20GiB. */}}
{{- define "symphony.cacheSize" -}}
{{ . }}B
{{- end }}

{{/* The autoscaler's limits are in GPUs: those of the backends in pods, times what a pod has. Several
backends of one type are one to it. */}}
{{- define "symphony.autoscale" -}}
{{- $types := dict -}}
{{- $most := 1 -}}
{{- range .Values.backends }}
{{- $unit := ternary (int .gpus) (int (.pool.devices | default 1)) (gt (int .gpus) 0) -}}
{{- $before := get $types .pool.device_type | default dict -}}
{{- if and $before (ne (int $before.unit) $unit) }}{{ fail (printf "backends: %s: pods of the type %s have different numbers of devices: give each number a type of its own" .name .pool.device_type) }}{{ end -}}
{{- $low := add (mul (int .scaling.min) $unit) ($before.min | default 0) -}}
{{- $high := add (mul (int .scaling.max) $unit) ($before.max | default 0) -}}
{{- $most = max $most $high -}}
{{- $_ := set $types .pool.device_type (dict "device_type" .pool.device_type "min" (max 1 $low) "max" $high "unit" $unit) -}}
{{- end }}
{{- $all := list -}}
{{- range $name := keys $types | sortAlpha }}{{ $all = append $all (get $types $name) }}{{ end -}}
{{ toYaml (dict "scaler" "kubernetes" "max" $most "types" $all) }}
{{- end }}
