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

{{- /* The endpoint's scheme; also the name of its port. */ -}}
{{- define "py-scheduler.scheme" -}}
{{- .Values.tls.enabled | ternary "https" "http" }}
{{- end }}

{{- /* How a scrape verifies the endpoint's certificate. */ -}}
{{- define "py-scheduler.scrapeTLS" -}}
{{- if .Values.tls.secretName }}
ca:
  secret:
    name: {{ .Values.tls.secretName }}
    key: ca.crt
serverName: {{ include "py-scheduler.fullname" . }}.{{ .Release.Namespace }}.svc
{{- else }}
# The certificate is self-signed at the start: no CA can verify it.
insecureSkipVerify: true
{{- end }}
{{- end }}

{{- /* The configuration as it is mounted: the lease gets the release's name and namespace. */ -}}
{{- define "py-scheduler.config" -}}
{{- $own := dict "resourceName" (include "py-scheduler.fullname" .) "resourceNamespace" .Release.Namespace }}
{{- $config := mergeOverwrite (dict "leaderElection" $own) (deepCopy .Values.config) }}
{{- /* The file must not contain what the SchedulerConfiguration contains. */ -}}
{{- if .Values.configResource.name }}
{{- $config = omit $config "profiles" "extenders" "percentageOfNodesToScore" "podInitialBackoffSeconds" "podMaxBackoffSeconds" }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* Whose requests the FlowSchemas match. */ -}}
{{- define "py-scheduler.flowSubject" -}}
- kind: ServiceAccount
  serviceAccount:
    name: {{ include "py-scheduler.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}
