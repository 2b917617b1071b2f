{{/* The start of every name. A release called headway has the names of the manifests. */}}
{{- define "headway.fullname" -}}
{{- $name := .Values.fullnameOverride | default (contains "headway" .Release.Name | ternary .Release.Name (printf "%s-headway" .Release.Name)) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/*
The objects of a file of manifests/, as JSON {"objects": [...]}; takes the root and the file. Their names start with the
release's, and each label app.kubernetes.io/name, of a selector too, has the release's instance beside it.
*/}}
{{- define "headway.read" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (printf "manifests/%s" (index . 1)) | required (printf "the chart has no file manifests/%s" (index . 1)) -}}
{{- $ours := "\\bheadway-(server|dashboard|router|instances|watched|stop|fleet|tokens|keys|hub|cache)\\b" -}}
{{- $text = regexReplaceAll $ours $text (printf "%s-${1}" (include "headway.fullname" $root)) -}}
{{- $instance := printf "${1}${2}\n${1}app.kubernetes.io/instance: %q" $root.Release.Name -}}
{{- $text = regexReplaceAll "(?m)^( *)(app\\.kubernetes\\.io/name: headway)$" $text $instance -}}
{{- $objects := list -}}
{{- range regexSplit "(?m)^---$" $text -1 -}}
{{- $objects = append $objects (fromYaml .) -}}
{{- end -}}
{{- dict "objects" $objects | toJson -}}
{{- end -}}

{{/* Objects as YAML, labelled as Helm's; takes the root and the objects. */}}
{{- define "headway.print" -}}
{{- $root := index . 0 -}}
{{- range index . 1 }}
{{- $labels := dict "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set .metadata "labels" (merge (.metadata.labels | default dict) $labels) }}
---
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What a ConfigMap holds, as JSON: what kustomize would generate, and the values on top; takes the root and its name. */}}
{{- define "headway.data" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- $part := index . 1 -}}
{{- $folders := list "base" -}}
{{- if $values.monitoring.enabled }}{{ $folders = append $folders "components/monitoring" }}{{ end -}}
{{- if $values.router.enabled }}{{ $folders = append $folders "components/router" }}{{ end -}}
{{- $data := dict -}}
{{- range $folder := $folders -}}
{{- $read := include "headway.read" (list $root (printf "%s/kustomization.yaml" $folder)) | fromJson -}}
{{- range (index $read.objects 0).configMapGenerator -}}
{{- if eq .name (printf "%s-%s" (include "headway.fullname" $root) $part) -}}
{{- range .literals }}{{ $pair := splitn "=" 2 . }}{{ $_ := set $data $pair._0 $pair._1 }}{{ end -}}
{{- range .files }}{{ $_ := set $data . ($root.Files.Get (printf "manifests/%s/%s" $folder .)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $given := dict -}}
{{- if eq $part "server" -}}
{{- $given = dict "SERVED_MODEL" $values.server.model "HEADWAY_PRESET" $values.preset -}}
{{- else if eq $part "router" -}}
{{- $given = dict "HEADWAY_PRESET" $values.preset "HEADWAY_SCALE_MIN" $values.scaling.min "HEADWAY_SCALE_MAX" $values.scaling.max -}}
{{- if not $values.scaling.enabled }}{{ $_ := set $given "HEADWAY_SCALE_MAX" (max 8 (int ($values.server.replicas | default 1))) }}{{ end -}}
{{- else if and (eq $part "dashboard") $values.monitoring.enabled -}}
{{- $given = dict "HEADWAY_PROMETHEUS_URL" $values.monitoring.prometheusUrl -}}
{{- end -}}
{{- range $name, $value := merge (dict) ((get $values $part | default dict).settings | default dict) $given -}}
{{- if kindIs "string" $value }}{{ $_ := set $data $name $value -}}
{{- else if not (kindIs "invalid" $value) }}{{ $_ := set $data $name (toJson $value) }}{{ end -}}
{{- end -}}
{{- toJson $data -}}
{{- end -}}

{{/*
Changes a Deployment in place and prints nothing; takes the root, the Deployment, its part of the values, the ConfigMaps
that it reads at its start and its image in the values.
*/}}
{{- define "headway.deployment" -}}
{{- $root := index . 0 -}}
{{- $template := (index . 1).spec.template -}}
{{- $values := index . 2 -}}
{{- $image := index . 4 -}}
{{- $container := index $template.spec.containers 0 -}}
{{- $version := printf ":%s" ($image.tag | default $root.Chart.AppVersion) -}}
{{- if $image.digest }}{{ $version = printf "@%s" $image.digest }}{{ end -}}
{{- $_ := set $container "image" (printf "%s%s" $image.repository $version) -}}
{{- if $image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" $image.pullPolicy }}{{ end -}}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources ($values.resources | default dict)) -}}
{{- $_ := mergeOverwrite $template.spec (deepCopy ($values.pod | default dict)) -}}
{{- if $root.Values.imagePullSecrets }}{{ $_ := set $template.spec "imagePullSecrets" $root.Values.imagePullSecrets }}{{ end -}}
{{- $read := list -}}
{{- range index . 3 }}{{ $read = append $read (include "headway.data" (list $root .)) }}{{ end -}}
{{- $_ := set $template.metadata "annotations" (dict "checksum/config" (join "" $read | sha256sum)) -}}
{{- range $template.spec.volumes -}}
{{- if .secret -}}
{{- $given := get $root.Values .name | default dict -}}
{{- if $given.existingSecret }}{{ $_ := set .secret "secretName" $given.existingSecret }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The items of a list that have not this value under this key, as JSON {"items": [...]}. */}}
{{- define "headway.without" -}}
{{- $key := index . 1 -}}
{{- $value := index . 2 -}}
{{- $kept := list -}}
{{- range index . 0 }}{{ if ne (get . $key) $value }}{{ $kept = append $kept . }}{{ end }}{{ end -}}
{{- dict "items" $kept | toJson -}}
{{- end -}}
