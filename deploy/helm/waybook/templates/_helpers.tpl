{{- define "waybook.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "waybook.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "waybook.labels" -}}
{{ include "waybook.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "waybook.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "waybook.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "waybook.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "waybook.ownerPod" -}}
restartPolicy: OnFailure
automountServiceAccountToken: false
securityContext:
  {{- include "waybook.podSecurity" .root | nindent 2 }}
containers:
  - name: {{ .command }}
    image: {{ include "waybook.image" .root }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    args: [{{ .command }}]
    env:
      - name: WAYBOOK_DATABASE_URL
        valueFrom:
          secretKeyRef:
            name: {{ .root.Values.database.ownerSecret }}
            key: url
    securityContext:
      {{- include "waybook.containerSecurity" .root | nindent 6 }}
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      - name: tmp
        mountPath: /data
volumes:
  - name: tmp
    emptyDir: {}
{{- end -}}
