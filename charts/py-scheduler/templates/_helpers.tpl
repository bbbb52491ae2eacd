{{- define "py-scheduler.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "py-scheduler.fullname" -}}
{{- $name := include "py-scheduler.name" . }}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "py-scheduler.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "py-scheduler.fullname" .) "default") }}
{{- end }}

{{- define "py-scheduler.selector" -}}
app.kubernetes.io/name: {{ include "py-scheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "py-scheduler.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: scheduler
{{ include "py-scheduler.selector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "py-scheduler.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* The configuration as it is mounted: the lease gets a name and a place of its own. */ -}}
{{- define "py-scheduler.config" -}}
{{- $own := dict "resourceName" (include "py-scheduler.fullname" .) "resourceNamespace" .Release.Namespace }}
{{- toYaml (mergeOverwrite (dict "leaderElection" $own) .Values.config) }}
{{- end }}
