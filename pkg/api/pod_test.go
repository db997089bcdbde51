package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParsePodDefaults(t *testing.T) {
	r, err := ParsePod(&metav1.ObjectMeta{})
	require.NoError(t, err)
	assert.Equal(t, PodRequest{OnRotate: OnRotateReload}, r, "says nothing")
	assert.Equal(t, Settings{
		Mode: ModeArgs, CertFlag: "--tls-cert-file", KeyFlag: "--tls-private-key-file",
		MountPath: "/etc/servingcert", HTTPSProbes: HTTPSProbesAuto, Trust: TrustFalse,
	}, r.Or(DefaultSettings()))
}

func TestParsePodReadsEveryAnnotation(t *testing.T) {
	r, err := ParsePod(&metav1.ObjectMeta{
		Labels: map[string]string{LabelInject: InjectEnabled},
		Annotations: map[string]string{
			AnnotationSecretName: "web-tls", AnnotationContainers: "web, proxy,web", AnnotationMode: "args",
			AnnotationCertFlag: "-cert", AnnotationKeyFlag: "-key", AnnotationMountPath: "/certs//x/",
			AnnotationHTTPSProbes: "true", AnnotationOnRotate: "restart", AnnotationTrust: "true", AnnotationIdentity: "true",
			"other.example/key": "anything",
		},
	})
	require.NoError(t, err)
	assert.Equal(t, PodRequest{
		SecretName: "web-tls", Settings: Settings{
			Containers: []string{"web", "proxy"}, Mode: ModeArgs,
			CertFlag: "-cert", KeyFlag: "-key", MountPath: "/certs/x", HTTPSProbes: HTTPSProbesTrue, Trust: TrustTrue, Identity: "true",
		}, OnRotate: OnRotateRestart,
	}, r)
}

func TestParsePodOptedOut(t *testing.T) {
	r, err := ParsePod(&metav1.ObjectMeta{
		Labels:      map[string]string{LabelInject: InjectDisabled},
		Annotations: map[string]string{AnnotationMode: "nonsense"},
	})
	require.NoError(t, err, "a pod that wants to be left alone is not refused for the rest")
	assert.True(t, r.OptedOut)
}

func TestParsePodRefuses(t *testing.T) {
	for _, tc := range []struct{ key, value, says string }{
		{AnnotationSecretName, "", "not a valid Secret name"},
		{AnnotationSecretName, "Web_TLS", "not a valid Secret name"},
		{AnnotationContainers, "", "list of container names"},
		{AnnotationContainers, "web,,proxy", "list of container names"},
		{AnnotationContainers, "Web", "list of container names"},
		{AnnotationMode, "", `must be "args", "env" or "mount"`},
		{AnnotationMode, "Args", `must be "args", "env" or "mount"`},
		{AnnotationCertFlag, "tls-cert", "not a valid flag name"},
		{AnnotationCertFlag, "--tls-cert=x", "not a valid flag name"},
		{AnnotationCertFlag, "--tls cert", "not a valid flag name"},
		{AnnotationCertFlag, "--", "not a valid flag name"},
		{AnnotationKeyFlag, "--$(X)", "not a valid flag name"},
		{AnnotationKeyFlag, "", "not a valid flag name"},
		{AnnotationKeyFlag, DefaultCertFlag, "must be another flag"},
		{AnnotationMountPath, "", "absolute path"},
		{AnnotationMountPath, "certs", "absolute path"},
		{AnnotationMountPath, "/", "hide the container's own /"},
		{AnnotationMountPath, "/x/..", "hide the container's own /"},
		{AnnotationMountPath, "/etc/", "hide the container's own /etc"},
		{AnnotationMountPath, "/var/run/secrets", "hide the container's own /var/run/secrets"},
		{AnnotationMountPath, "/proc/x", "nothing can be mounted in /proc"},
		{AnnotationMountPath, "/var/run/secrets/kubernetes.io/serviceaccount/tls", "nothing can be mounted"},
		{AnnotationMountPath, "/a:b", "colon"},
		{AnnotationMountPath, "/a$(B)", "dollar"},
		{AnnotationMountPath, "/a\nb", "control character"},
		{AnnotationMountPath, "/" + strings.Repeat("a", 512), "is longer than 512"},
		{AnnotationHTTPSProbes, "yes", `must be "auto", "true" or "false"`},
		{AnnotationOnRotate, "kill", `must be "reload", "restart" or "none"`},
		{AnnotationTrust, "1", `must be "false", "true" or "env"`},
		{AnnotationIdentity, "yes", `must be "true" or "false"`},
	} {
		t.Run(tc.key+"="+tc.value, func(t *testing.T) {
			_, err := ParsePod(&metav1.ObjectMeta{Annotations: map[string]string{tc.key: tc.value}})
			var fe *FieldError
			require.ErrorAs(t, err, &fe)
			assert.Equal(t, tc.key, fe.Field)
			assert.Equal(t, tc.value, fe.Value)
			assert.Contains(t, err.Error(), tc.says)
			assert.NotContains(t, err.Error(), "\n", "one line")
		})
	}
}

func TestPodProblemsAreAll(t *testing.T) {
	errs := PodProblems(&metav1.ObjectMeta{Labels: map[string]string{LabelInject: "yes"}, Annotations: map[string]string{AnnotationMode: "flags", AnnotationTrust: "1", AnnotationSecretName: "web"}})
	fields := []string{}
	for _, err := range errs {
		var fe *FieldError
		require.ErrorAs(t, err, &fe)
		fields = append(fields, fe.Field)
	}
	assert.Equal(t, []string{"label " + LabelInject, AnnotationMode, AnnotationTrust}, fields)
}

func TestParsePodRefusesAnUnknownOptOut(t *testing.T) {
	_, err := ParsePod(&metav1.ObjectMeta{Labels: map[string]string{LabelInject: "false"}})
	require.EqualError(t, err, `label servingcert.dev/inject: "false": must be "disabled" to opt the pod out, or "enabled"`)
}

func TestUnknownPodAnnotations(t *testing.T) {
	assert.Equal(t, []string{"servingcert.dev/duration", "servingcert.dev/secretname"}, UnknownPodAnnotations(map[string]string{
		"servingcert.dev/secretname": "x", AnnotationDuration: "1h", AnnotationStatus: "{}", AnnotationMode: "args", "a.example/b": "c",
	}))
}
