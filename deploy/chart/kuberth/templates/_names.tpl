{{/* The name of all objects. */}}
{{- define "kuberth.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if eq .Values.mode "replace" -}}
{{- printf "%s-default" (.Release.Name | trunc 32 | trimSuffix "-") -}}
{{- else -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods; it may never change. */}}
{{- define "kuberth.selector" -}}
app.kubernetes.io/name: kuberth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kuberth.labels" -}}
{{ include "kuberth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "kuberth.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* KubeSchedulerConfiguration: what the mode sets, under what the user does. */}}
{{- define "kuberth.configuration" -}}
{{- $replace := eq .Values.mode "replace" -}}
{{- $lease := dict "leaderElect" true
  "resourceNamespace" (ternary "kube-system" .Release.Namespace $replace)
  "resourceName" (ternary "kube-scheduler" (include "kuberth.name" .) $replace) -}}
{{- $scheduler := .Values.schedulerName | default (ternary "default-scheduler" "kuberth" $replace) -}}
{{- $set := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration"
  "leaderElection" $lease "profiles" (list (dict "schedulerName" $scheduler)) -}}
{{- mergeOverwrite $set (deepCopy .Values.configuration) | toYaml -}}
{{- end -}}

{{- define "kuberth.subject" -}}
- kind: ServiceAccount
  name: {{ include "kuberth.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
