package main

import "strings"

// row is a value, and the text that an object must have with it, at a path of kubectl's -o jsonpath.
type row struct{ set, object, path, want string }

// gone, as a path: the object does not exist.
const gone = "(gone)"

const (
	args = ".spec.template.spec.containers[0].args"
	spec = ".spec.template.spec"
)

// rows has at least one row for each value.
func rows() []row {
	all := []row{
		{"namespace.create=false", "Namespace servingcert-system", gone, ""},
		{"namespace.name=tls", "Namespace tls", ".metadata.name", "tls"},
		{"namespace.name=tls", "ClusterRoleBinding servingcert-signer", ".subjects", `"namespace":"tls"`},
		{"namespace.labels.team=platform", "Namespace servingcert-system", ".metadata.labels.team", "platform"},
		{"namespace.annotations.team=platform", "Namespace servingcert-system", ".metadata.annotations.team", "platform"},
		{"namespace.podSecurity=baseline", "Namespace servingcert-system", ".metadata.labels", `"pod-security.kubernetes.io/enforce":"baseline"`},
		{"image.registry=images.example.com", "Deployment servingcert-webhook", spec, `"images.example.com/servingcert/webhook:v0.1.0"`},
		{"image.tag=v9", "Deployment servingcert-rotator", spec, `"ghcr.io/servingcert/rotator:v9"`},
		{"image.pullPolicy=Always", "Deployment servingcert-signer", spec, `"imagePullPolicy":"Always"`},
		{"image.pullSecrets[0].name=registry", "Deployment servingcert-signer", spec + ".imagePullSecrets", `[{"name":"registry"}]`},
		{"clusterDomain=example.internal", "Deployment servingcert-webhook", args, `"--cluster-domain=example.internal"`},
		{"openshiftCompat=true", "Deployment servingcert-rotator", args, `"--openshift-compat"`},
		{"logLevel=debug", "Deployment servingcert-signer", args, `"--log-level=debug"`},
		{"logFormat=text", "Deployment servingcert-signer", args, `"--log-format=text"`},
		{"kubeAPIQPS=50", "Deployment servingcert-signer", args, `"--kube-api-qps=50"`},

		{"pods.priorityClassName=important", "Deployment servingcert-signer", spec + ".priorityClassName", "important"},
		{`pods.nodeSelector.pool=infra`, "Deployment servingcert-webhook", spec + ".nodeSelector", `{"kubernetes.io/os":"linux","pool":"infra"}`},
		{"pods.tolerations[0].key=infra", "Deployment servingcert-rotator", spec + ".tolerations", `[{"key":"infra"}]`},
		{"pods.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1", "Deployment servingcert-rotator", spec + ".affinity", `"weight":1`},
		{"pods.topologySpread[0].maxSkew=1,pods.topologySpread[0].topologyKey=zone,pods.topologySpread[0].whenUnsatisfiable=DoNotSchedule", "Deployment servingcert-signer", spec + ".topologySpreadConstraints[0]", `"labelSelector":{"matchLabels":{"app.kubernetes.io/name":"signer","app.kubernetes.io/part-of":"servingcert"}},"maxSkew":1,"topologyKey":"zone"`},
		{"pods.securityContext.runAsUser=1000", "Deployment servingcert-signer", spec + ".securityContext.runAsUser", "1000"},
		{"pods.securityContext.runAsUser=null,pods.securityContext.runAsGroup=null,pods.securityContext.fsGroup=null", "Deployment servingcert-signer", spec + ".securityContext", `{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		{"pods.containerSecurityContext.privileged=false", "Deployment servingcert-signer", spec + ".containers[0].securityContext.privileged", "false"},
		{"pods.annotations.a=b", "Deployment servingcert-signer", ".spec.template.metadata.annotations", `{"a":"b"}`},
		{"pods.labels.a=b", "Deployment servingcert-signer", ".spec.template.metadata.labels.a", "b"},
		{"podDisruptionBudget.enabled=false", "PodDisruptionBudget servingcert-webhook", gone, ""},
		{"podDisruptionBudget.maxUnavailable=50%", "PodDisruptionBudget servingcert-webhook", ".spec.maxUnavailable", "50%"},

		{"certificates.permitDNSSuffixes={team-*=example.com,*=example.org}", "Deployment servingcert-signer", args, `"--permit-dns-suffix=team-*=example.com","--permit-dns-suffix=*=example.org"`},
		{"certificates.permitClusterIPs=true", "Deployment servingcert-signer", args, `"--permit-cluster-ips"`},
		{"certificates.permitRSA4096=true", "Deployment servingcert-signer", args, `"--permit-rsa4096"`},
		{"certificates.csr=false", "Deployment servingcert-signer", args, `"--csr=false"`},
		{"identities.trustDomain=example.com", "Deployment servingcert-signer", args, `"--trust-domain=example.com"`},
		{"identities.trustDomain=example.com", "Deployment servingcert-webhook", args, `"--trust-domain=example.com"`},
		{"identities.trustDomain=example.com", "ClusterRole servingcert-signer-identities", ".rules", `{"apiGroups":["certificates.k8s.io"],"resourceNames":["servingcert.dev/client"],"resources":["signers"],"verbs":["attest","sign"]}`},
		{"identities.trustDomain=example.com", "Role servingcert-signer-identities", ".rules", `"servingcert-client-ca-status"`},
		{"kubeletServing.approve=true\nkubeletServing.nodeCIDRs={10.0.0.0/16,fd00::/64}", "Deployment servingcert-signer", args, `"--approve-kubelet-serving","--node-cidrs=10.0.0.0/16,fd00::/64"`},
		{"kubeletServing.approve=true\nkubeletServing.nodeDNSSuffixes={nodes.example.com}", "Deployment servingcert-signer", args, `"--approve-kubelet-serving","--node-dns-suffixes=nodes.example.com"`},
		{"caIssuer.issuer=AWSPCAClusterIssuer.awspca.cert-manager.io/pca", "Deployment servingcert-signer", args, `"--ca-issuer=AWSPCAClusterIssuer.awspca.cert-manager.io/pca"`},
		{"caIssuer.issuer=ClusterIssuer/vault\ncaIssuer.roots=roots", "Deployment servingcert-signer", args, `"--ca-issuer=ClusterIssuer/vault","--ca-issuer-roots=roots"`},
		{"kubeletServing.nodeCIDRs={10.0.0.0/16}", "ClusterRole servingcert-signer-kubelet-serving", gone, ""},
		{"limits.secretIssueBurst=0", "Deployment servingcert-signer", args, `"--secret-issue-burst=0"`},
		{"limits.namespaceReissueBurst=1000000", "Deployment servingcert-signer", args, `"--namespace-reissue-burst=1000000"`},
		{"signer.workers=4", "Deployment servingcert-signer", args, `"--workers=4"`},
		{"clusterId=eu-1", "Deployment servingcert-signer", args, `"--cluster-id=eu-1"`},
		{"signer.instance=blue", "Deployment servingcert-signer", args, `"--instance=blue"`},

		{"trust.targets={NamespaceConfigMap,MutatingWebhookConfiguration}", "Deployment servingcert-trust", args, `"--targets=NamespaceConfigMap,MutatingWebhookConfiguration"`},
		{"trust.mutatingWebhookConfigurations={mine}", "ClusterRole servingcert-trust", ".rules", `"resourceNames":["servingcert","mine"],"resources":["mutatingwebhookconfigurations"]`},
		{"trust.validatingWebhookConfigurations={mine}", "ClusterRole servingcert-trust", ".rules", `"resourceNames":["mine"],"resources":["validatingwebhookconfigurations"]`},
		{"trust.webhooks=all", "ClusterRole servingcert-trust", ".rules", `{"apiGroups":["admissionregistration.k8s.io"],"resources":["mutatingwebhookconfigurations"],"verbs":["patch"]},{"apiGroups":["admissionregistration.k8s.io"],"resources":["validatingwebhookconfigurations"],"verbs":["patch"]}`},
		{"rotator.image.tag=v9", "Deployment servingcert-trust", spec, `"ghcr.io/servingcert/rotator:v9"`},
		{"consumers.verify=false", "Deployment servingcert-rotator", args, `"--verify-consumers=false"`},
		{"consumers.probeConcurrency=8", "Deployment servingcert-rotator", args, `"--probe-concurrency=8"`},
		{`consumers.podCIDRs={10.0.0.0/8,fd00::/8}`, "Deployment servingcert-rotator", args, `"--pod-cidrs=10.0.0.0/8,fd00::/8"`},
		{"consumers.wake=false", "Deployment servingcert-rotator", args, `"--wake=false"`},
		{"consumers.wakeRate=5", "Deployment servingcert-rotator", args, `"--wake-rate=5"`},
		{"consumers.maxRestarts=0", "Deployment servingcert-rotator", args, `"--max-restarts=0"`},
		{"trust.backendTLSPolicies=true", "Deployment servingcert-trust", args, `"--backend-tls-policies"`},
		{"trust.workers=2", "Deployment servingcert-trust", args, `"--workers=2"`},

		{"webhook.strategy.type=Recreate", "Deployment servingcert-webhook", ".spec.strategy", `{"type":"Recreate"}`},
		{"webhook.port=10250", "Deployment servingcert-webhook", args, `"--port=10250"`},
		{"webhook.port=10250", "Deployment servingcert-webhook", spec, `{"containerPort":10250,"name":"https"}`},
		{"webhook.port=10250", "Service servingcert-webhook", ".spec.ports[0]", `"port":10250,"targetPort":10250`},
		{"webhook.port=10250", "MutatingWebhookConfiguration servingcert", ".webhooks[0].clientConfig.service.port", "10250"},
		{"webhook.port=10250", "NetworkPolicy servingcert-webhook", ".spec.ingress", `"port":10250`},
		{"webhook.metricsPort=18443", "Deployment servingcert-webhook", args, `"--metrics-addr=:18443"`},
		{"webhook.metricsPort=18443", "NetworkPolicy servingcert-webhook", ".spec.ingress", `"port":18443`},
		{"webhook.healthPort=18081", "Deployment servingcert-webhook", args, `"--health-addr=:18081"`},
		{"webhook.healthPort=18081", "Deployment servingcert-webhook", spec, `{"containerPort":18081,"name":"health"}`},
		{"webhook.hostNetwork=true", "Deployment servingcert-webhook", spec, `"dnsPolicy":"ClusterFirstWithHostNet"`},
		{"webhook.hostNetwork=true", "Deployment servingcert-webhook", spec + ".hostNetwork", "true"},
		{"webhook.hostNetwork=true", "Deployment servingcert-webhook", ".spec.strategy", `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}`},
		{"webhook.hostNetwork=true", "Namespace servingcert-system", ".metadata.labels", `"pod-security.kubernetes.io/enforce":"privileged"`},
		{"webhook.failurePolicy=Ignore", "MutatingWebhookConfiguration servingcert", ".webhooks[0].failurePolicy", "Ignore"},
		{"webhook.timeoutSeconds=2", "MutatingWebhookConfiguration servingcert", ".webhooks[0].timeoutSeconds", "2"},
		{"webhook.excludedNamespaces={kube-system,ci}", "MutatingWebhookConfiguration servingcert", ".webhooks[0].namespaceSelector", `["servingcert-system","kube-system","ci"]`},
		{"webhook.namespaceMatchExpressions[0].key=team,webhook.namespaceMatchExpressions[0].operator=Exists", "MutatingWebhookConfiguration servingcert", ".webhooks[0].namespaceSelector", `{"key":"team","operator":"Exists"}`},
		{"webhook.objectSelector.matchLabels.tls=yes", "MutatingWebhookConfiguration servingcert", ".webhooks[0].objectSelector", `{"matchLabels":{"tls":"yes"}}`},
		{"webhook.matchConditions[0].name=mine,webhook.matchConditions[0].expression=true==true", "MutatingWebhookConfiguration servingcert", ".webhooks[0].matchConditions[2].name", "mine"},
		{"webhook.defaultMode=mount", "Deployment servingcert-webhook", args, `"--default-mode=mount"`},
		{"webhook.unknownPrograms=flags", "Deployment servingcert-webhook", args, `"--unknown-programs=flags"`},
		{"proxy.enabled=false", "Deployment servingcert-webhook", args, `"--port=9443"]`},
		{"proxy.image.registry=r.example,proxy.image.repository=p,proxy.image.tag=v9,proxy.image.digest=sha256:" + strings.Repeat("0", 64), "Deployment servingcert-webhook", args, `"--proxy-image=r.example/p:v9@sha256:` + strings.Repeat("0", 64) + `"`},
		{"proxy.image.pullSecrets[0].name=a,proxy.image.pullSecrets[1].name=b", "Deployment servingcert-webhook", args, `"--proxy-pull-secrets=a,b"`},
		{"proxy.resources.requests.cpu=20m,proxy.resources.requests.memory=64Mi,proxy.resources.limits.cpu=1,proxy.resources.limits.memory=128Mi", "Deployment servingcert-webhook", args, `"--proxy-resources=limits.cpu=1,limits.memory=128Mi,requests.cpu=20m,requests.memory=64Mi"`},
		{"webhook.clientCA.configMapName=clients,webhook.clientCA.names={a,b}", "Deployment servingcert-webhook", args, `"--client-ca-file=/etc/servingcert-clients/ca.crt","--client-names=a,b"`},
		{"webhook.clientCA.configMapName=clients", "Deployment servingcert-webhook", spec + ".volumes", `{"configMap":{"name":"clients"},"name":"clients"}`},

		{"policies.annotations.enabled=false", "ValidatingAdmissionPolicy servingcert-annotations", gone, ""},
		{"policies.annotations.action=Warn", "ValidatingAdmissionPolicyBinding servingcert-annotations", ".spec.validationActions", `["Warn"]`},
		{"policies.conditions.enabled=false", "ValidatingAdmissionPolicy servingcert-conditions", gone, ""},
		{"policies.permissions.enabled=true", "ValidatingAdmissionPolicy servingcert-permissions", ".spec.failurePolicy", "Fail"},
		{"networkPolicies.enabled=false", "NetworkPolicy servingcert-signer", gone, ""},
		{"networkPolicies.metricsFrom[0].namespaceSelector.matchLabels.metrics=yes", "NetworkPolicy servingcert-webhook", ".spec.ingress[0]", `{"from":[{"namespaceSelector":{"matchLabels":{"metrics":"yes"}}}],"ports":[{"port":8443,"protocol":"TCP"}]}`},
		{"networkPolicies.egress.enabled=true\nnetworkPolicies.egress.apiServerPorts={8443}", "NetworkPolicy servingcert-webhook-egress", ".spec.egress", `[{"ports":[{"port":8443,"protocol":"TCP"}]}]`},
		{"networkPolicies.egress.enabled=true\nnetworkPolicies.egress.remoteCAPorts={8888}", "NetworkPolicy servingcert-signer-egress", ".spec.egress[0].ports[2].port", "8888"},
		{"resourceQuota.enabled=true\nresourceQuota.pods=7", "ResourceQuota servingcert-priority", ".spec.hard.pods", "7"},
		{"resourceQuota.enabled=true\nresourceQuota.priorityClasses={important}", "ResourceQuota servingcert-priority", ".spec.scopeSelector.matchExpressions[0]", `{"operator":"In","scopeName":"PriorityClass","values":["important"]}`},

		{"monitoring.podMonitor.enabled=true\nmonitoring.podMonitor.labels.release=p", "PodMonitor servingcert-signer", ".metadata.labels.release", "p"},
		{"monitoring.podMonitor.enabled=true\nmonitoring.podMonitor.interval=30s", "PodMonitor servingcert-signer", ".spec.podMetricsEndpoints[0]", `"honorLabels":true,"interval":"30s"`},
		{"monitoring.podMonitor.enabled=true\nmonitoring.podMonitor.metricLabels.cluster=eu-1", "PodMonitor servingcert-webhook", ".spec.podMetricsEndpoints[0].relabelings", `[{"action":"replace","replacement":"eu-1","targetLabel":"cluster"}]`},
		{"monitoring.prometheusRule.enabled=true\nmonitoring.prometheusRule.labels.release=p", "PrometheusRule servingcert", ".metadata.labels.release", "p"},
		{"monitoring.prometheusRule.enabled=true\nmonitoring.prometheusRule.alertLabels.cluster=eu-1", "PrometheusRule servingcert", ".spec.groups[0].rules[0].labels", `{"cluster":"eu-1","severity":"critical"}`},
		{"monitoring.prometheusRule.enabled=true\nmonitoring.prometheusRule.runbookURL=https://runbooks.example.com/", "PrometheusRule servingcert", ".spec.groups[0].rules[0].annotations.runbook_url", "https://runbooks.example.com/ServingcertCannotSign"},
		{"monitoring.prometheusRule.enabled=true\nmonitoring.prometheusRule.disabled={ServingcertCannotSign}", "PrometheusRule servingcert", ".spec.groups[0].rules[0].alert", "ServingcertNobodySigns"},
	}
	all = append(all, durations()...)
	all = append(all, remoteCA()...)
	for _, process := range []string{"signer", "rotator", "webhook"} {
		all = append(all, image(process)...)
	}
	for _, process := range []string{"signer", "trust", "rotator", "webhook"} {
		all = append(all, shared(process)...)
	}
	return all
}

// durations are the values of flags with durations.
func durations() []row {
	duration := func(value string) string {
		switch value { // the programs have other limits for these
		case "ca.duration":
			return "8760h"
		case "certificates.maxDuration":
			return "1440h"
		case "limits.secretIssueInterval", "limits.namespaceReissueInterval":
			return "45m"
		case "consumers.probeTimeout":
			return "30s"
		}
		return "1h30m"
	}
	var all []row
	for value, flag := range map[string]string{
		"ca.duration": "ca-duration", "ca.soak": "ca-soak", "ca.refusalGrace": "ca-refusal-grace", "ca.reissueWindow": "ca-reissue-window",
		"certificates.defaultDuration": "default-duration", "certificates.minDuration": "min-duration", "certificates.maxDuration": "max-duration",
		"certificates.podMaxDuration": "pod-max-duration", "certificates.clusterIPDuration": "cluster-ip-duration",
		"limits.secretIssueInterval": "secret-issue-interval", "limits.namespaceReissueInterval": "namespace-reissue-interval",
	} {
		all = append(all, row{value + "=" + duration(value), "Deployment servingcert-signer", args, `"--` + flag + "=" + duration(value) + `"`})
	}
	for value, flag := range map[string]string{
		"consumers.verifyInterval":  "verify-interval",
		"consumers.propagationTime": "propagation-time", "consumers.probeTimeout": "probe-timeout",
	} {
		all = append(all, row{value + "=" + duration(value), "Deployment servingcert-rotator", args, `"--` + flag + "=" + duration(value) + `"`})
	}
	return append(all, row{"trust.maxBackoff=1h30m", "Deployment servingcert-trust", args, `"--max-backoff=1h30m"`},
		row{"trust.publicRoots.configMap=roots", "Deployment servingcert-trust", args, `"--public-roots=/etc/public-roots/ca-certificates.crt"`},
		row{"trust.publicRoots.configMap=roots", "Deployment servingcert-webhook", args, `"--public-roots"`},
		row{"trust.publicRoots.configMap=roots", "Deployment servingcert-trust", spec + ".volumes[1].configMap.name", "roots"},
		row{"trust.publicRoots.configMap=roots\ntrust.publicRoots.key=k", "Deployment servingcert-trust", args, `"--public-roots=/etc/public-roots/k"`})
}

func remoteCA() []row {
	const urls = "remoteCA.urls={https://ca-1.example.com:8888,https://ca-2.example.com}\n"
	all := []row{
		{urls, "Deployment servingcert-signer", args, `"--cfssl-url=https://ca-1.example.com:8888","--cfssl-url=https://ca-2.example.com","--cfssl-auth-key-file=/etc/cfssl/auth.key","--cfssl-ca=/etc/cfssl/ca.crt"`},
		{urls, "Deployment servingcert-signer", spec + ".containers[0].volumeMounts[1]", `{"mountPath":"/etc/cfssl","name":"cfssl","readOnly":true}`},
		{urls + "remoteCA.secretName=remote", "Deployment servingcert-signer", spec + ".volumes[1].secret.secretName", "remote"},
	}
	for value, flag := range map[string]string{
		"authKey=k": "auth-key-file=/etc/cfssl/k", "ca=c": "ca=/etc/cfssl/c", "clientCert=c": "client-cert=/etc/cfssl/c",
		"clientKey=k": "client-key=/etc/cfssl/k", "bundle=b": "bundle=/etc/cfssl/b",
		"profile=p": "profile=p", "profileRSA=p": "profile-rsa=p", "label=l": "label=l", "timeout=5s": "timeout=5s",
	} {
		all = append(all, row{urls + "remoteCA." + value, "Deployment servingcert-signer", args, `"--cfssl-` + flag + `"`})
	}
	return all
}

// image are the values for the image of a process.
func image(process string) []row {
	digest := "sha256:" + strings.Repeat("0", 64)
	return of(process, []row{
		{"image.registry=r", "Deployment NAME", spec + ".containers[0].image", "r/servingcert/" + process + ":v0.1.0"},
		{"image.repository=r", "Deployment NAME", spec + ".containers[0].image", "ghcr.io/r:v0.1.0"},
		{"image.tag=v9", "Deployment NAME", spec + ".containers[0].image", ":v9"},
		{"image.digest=" + digest, "Deployment NAME", spec + ".containers[0].image", ":v0.1.0@" + digest},
	})
}

// shared are the values that each process has.
func shared(process string) []row {
	return of(process, []row{
		{"replicas=3", "Deployment NAME", ".spec.replicas", "3"},
		{"serviceAccount.create=false", "ServiceAccount NAME", gone, ""},
		{"serviceAccount.name=other", "ServiceAccount other", ".metadata.name", "other"},
		{"serviceAccount.name=other", "Deployment NAME", spec + ".serviceAccountName", "other"},
		{"serviceAccount.name=other", "ClusterRoleBinding NAME", ".subjects[0].name", "other"},
		{"serviceAccount.name=other", "RoleBinding NAME", ".subjects[0].name", "other"},
		{"serviceAccount.name=other", "ClusterRoleBinding servingcert-metrics-auth", ".subjects", `"name":"other"`},
		{"serviceAccount.annotations.role=arn", "ServiceAccount NAME", ".metadata.annotations", `{"role":"arn"}`},
		{"resources.limits.memory=1Gi", "Deployment NAME", spec + ".containers[0].resources.limits", `{"memory":"1Gi"}`},
		{"env[0].name=A,PROCESS.env[0].value=b", "Deployment NAME", spec + ".containers[0].env", `{"name":"A","value":"b"`},
		{"nodeSelector.pool=infra", "Deployment NAME", spec + ".nodeSelector", `{"pool":"infra"}`},
		{"tolerations[0].key=infra", "Deployment NAME", spec + ".tolerations", `[{"key":"infra"}]`},
		{"affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1", "Deployment NAME", spec + ".affinity", "podAffinity"},
		{"priorityClassName=important", "Deployment NAME", spec + ".priorityClassName", "important"},
		{"podAnnotations.a=b", "Deployment NAME", ".spec.template.metadata.annotations", `{"a":"b"}`},
		{"podLabels.a=b", "Deployment NAME", ".spec.template.metadata.labels.a", "b"},
		{"extraArgs={--leader-elect=false}", "Deployment NAME", args, `"--leader-elect=false"`},
		{"extraVolumes[0].name=v", "Deployment NAME", spec + ".volumes[1].name", "v"},
		{"extraVolumeMounts[0].name=v,PROCESS.extraVolumeMounts[0].mountPath=/v", "Deployment NAME", spec + ".containers[0].volumeMounts[1]", `{"mountPath":"/v","name":"v"}`},
		{"lifecycle.preStop.sleep.seconds=5", "Deployment NAME", spec + ".containers[0].lifecycle", `{"preStop":{"sleep":{"seconds":5}}}`},
		{"terminationGracePeriodSeconds=60", "Deployment NAME", spec + ".terminationGracePeriodSeconds", "60"},
	})
}

// of inserts the name of a process into shared rows.
func of(process string, all []row) []row {
	for i := range all {
		all[i].set = process + "." + strings.ReplaceAll(all[i].set, "PROCESS", process)
		all[i].object = strings.ReplaceAll(all[i].object, "NAME", "servingcert-"+process)
	}
	return all
}
