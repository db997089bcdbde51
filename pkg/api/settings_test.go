package api

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// full sets every setting.
func full() Settings {
	return Settings{
		Containers: []string{"web"}, Mode: ModeEnv, CertFlag: "--cert", KeyFlag: "--key",
		MountPath: "/certs", HTTPSProbes: HTTPSProbesFalse, ProxyProtocol: []int32{8081}, Trust: TrustEnv, Connect: []Connect{{Service: "db", Namespace: "data"}},
		ProxyResources: proxyResources("limits.memory=128Mi"), Identity: "true",
	}
}

func proxyResources(value string) corev1.ResourceRequirements {
	r, _ := ParseProxyResources(value)
	return r
}

func TestOrTakesWhatIsNotSaid(t *testing.T) {
	other := Settings{
		Containers: []string{"proxy"}, Mode: ModeMount, CertFlag: "-c", KeyFlag: "-k",
		MountPath: "/other", HTTPSProbes: HTTPSProbesTrue, ProxyProtocol: []int32{1}, Trust: TrustTrue, Connect: []Connect{{}},
		ProxyResources: proxyResources("requests.cpu=1"), Identity: "false",
	}
	assert.Equal(t, full(), full().Or(other), "what is said stays")
	assert.Equal(t, other, Settings{}.Or(other), "nothing is said")
	assert.Equal(t, full(), full().Or(Settings{}), "the other says nothing")
	assert.Equal(t, other, Settings{Containers: []string{}}.Or(other), "an empty list says nothing")

	// Each setting is decided separately.
	kind := reflect.TypeFor[Settings]()
	for i := range kind.NumField() {
		t.Run(kind.Field(i).Name, func(t *testing.T) {
			require.NotZero(t, reflect.ValueOf(full()).Field(i).Interface(), "add the field to full")
			var s Settings
			reflect.ValueOf(&s).Elem().Field(i).Set(reflect.ValueOf(full()).Field(i))
			want := other
			reflect.ValueOf(&want).Elem().Field(i).Set(reflect.ValueOf(full()).Field(i))
			assert.Equal(t, want, s.Or(other))
		})
	}
}

func TestOrOnThreeLevels(t *testing.T) {
	pod, service, namespace := Settings{Mode: ModeMount}, Settings{Mode: ModeEnv, CertFlag: "--cert"}, full()
	assert.Equal(t, Settings{
		Containers: []string{"web"}, Mode: ModeMount, CertFlag: "--cert", KeyFlag: "--key",
		MountPath: "/certs", HTTPSProbes: HTTPSProbesFalse, ProxyProtocol: []int32{8081}, Trust: TrustEnv,
		ProxyResources: proxyResources("limits.memory=128Mi"), Connect: []Connect{{Service: "db", Namespace: "data"}}, Identity: "true",
	}, pod.Or(service).Or(namespace))
}

func TestNamesFlags(t *testing.T) {
	assert.True(t, Settings{CertFlag: "--cert"}.NamesFlags())
	assert.True(t, Settings{KeyFlag: "--key"}.NamesFlags())
	without := full()
	without.CertFlag, without.KeyFlag = "", ""
	assert.False(t, without.NamesFlags())
}

func TestParseSettingsReadsEveryKey(t *testing.T) {
	s, errs := ParseSettings(map[string]string{
		AnnotationContainers: "web, proxy,web", AnnotationMode: "mount", AnnotationCertFlag: "-cert", AnnotationKeyFlag: "-key",
		AnnotationMountPath: "/certs//x/", AnnotationHTTPSProbes: "auto", AnnotationProxyProtocol: "8082, 8081,8082",
		AnnotationProxyResources: "limits.cpu=1",
		AnnotationSecretName:     "web-tls", AnnotationOnRotate: "perhaps", AnnotationTrust: "env", "other.example/mode": "nonsense",
	})
	require.Empty(t, errs, "what is no setting is not looked at")
	assert.Equal(t, Settings{
		Containers: []string{"web", "proxy"}, Mode: ModeMount, CertFlag: "-cert", KeyFlag: "-key",
		MountPath: "/certs/x", HTTPSProbes: HTTPSProbesAuto, ProxyProtocol: []int32{8082, 8081}, Trust: TrustEnv,
		ProxyResources: proxyResources("limits.cpu=1"),
	}, s)
	for key, want := range map[string]Settings{
		AnnotationContainers:     {Containers: []string{"v"}},
		AnnotationMode:           {Mode: ModeArgs},
		AnnotationCertFlag:       {CertFlag: "--v"},
		AnnotationKeyFlag:        {KeyFlag: "--v"},
		AnnotationMountPath:      {MountPath: "/v"},
		AnnotationHTTPSProbes:    {HTTPSProbes: HTTPSProbesTrue},
		AnnotationProxyProtocol:  {ProxyProtocol: []int32{65535}},
		AnnotationProxyResources: {ProxyResources: proxyResources("requests.memory=64Mi")},
		AnnotationTrust:          {Trust: TrustTrue},
		AnnotationConnect:        {Connect: []Connect{{Service: "v"}}},
		AnnotationIdentity:       {Identity: "true"},
	} {
		t.Run(key, func(t *testing.T) {
			value := map[string]string{
				AnnotationContainers: "v", AnnotationMode: "args", AnnotationCertFlag: "--v", AnnotationKeyFlag: "--v",
				AnnotationMountPath: "/v", AnnotationHTTPSProbes: "true", AnnotationProxyProtocol: "65535", AnnotationTrust: "true",
				AnnotationProxyResources: "requests.memory=64Mi", AnnotationConnect: "v", AnnotationIdentity: "true",
			}[key]
			s, errs := ParseSettings(map[string]string{key: value})
			assert.Empty(t, errs)
			assert.Equal(t, want, s, "nothing else is said")
		})
	}
	s, errs = ParseSettings(nil)
	assert.Empty(t, errs)
	assert.Zero(t, s)
}

// TestParseSettingsKeepsTheOthers: an invalid value is reported, and does not affect the others.
func TestParseSettingsKeepsTheOthers(t *testing.T) {
	right := map[string]string{
		AnnotationContainers: "web", AnnotationMode: "env", AnnotationCertFlag: "--cert", AnnotationKeyFlag: "--key",
		AnnotationMountPath: "/certs", AnnotationHTTPSProbes: "false", AnnotationProxyProtocol: "8081", AnnotationTrust: "env",
		AnnotationProxyResources: "limits.memory=128Mi", AnnotationConnect: "db.data", AnnotationIdentity: "true",
	}
	for _, tc := range []struct {
		key, value, says string
		without          func(s *Settings)
	}{
		{AnnotationContainers, "web,,proxy", "must be a comma-separated list of container names", func(s *Settings) { s.Containers = nil }},
		{AnnotationMode, "flags", `must be "args", "env" or "mount"`, func(s *Settings) { s.Mode = "" }},
		{AnnotationMode, "", `must be "args", "env" or "mount"`, func(s *Settings) { s.Mode = "" }},
		{AnnotationCertFlag, "cert", "must be one or two dashes", func(s *Settings) { s.CertFlag = "" }},
		{AnnotationKeyFlag, "--key=x", "must be one or two dashes", func(s *Settings) { s.KeyFlag = "" }},
		{AnnotationMountPath, "certs", "must be the absolute path of a separate directory", func(s *Settings) { s.MountPath = "" }},
		{AnnotationMountPath, "/etc", "would hide the container's own /etc", func(s *Settings) { s.MountPath = "" }},
		{AnnotationHTTPSProbes, "yes", `must be "auto", "true" or "false"`, func(s *Settings) { s.HTTPSProbes = "" }},
		{AnnotationProxyProtocol, "8081,http", portNumbers, func(s *Settings) { s.ProxyProtocol = nil }},
		{AnnotationProxyResources, "limits.memory=1Mi", "limits.memory must be between 32Mi and 4Gi", func(s *Settings) { s.ProxyResources = corev1.ResourceRequirements{} }},
		{AnnotationConnect, "http://db", "must be a comma-separated list of Services", func(s *Settings) { s.Connect = nil }},
		{AnnotationTrust, "yes", `must be "false", "true" or "env"`, func(s *Settings) { s.Trust = "" }},
		{AnnotationIdentity, "yes", `must be "true" or "false"`, func(s *Settings) { s.Identity = "" }},
	} {
		t.Run(tc.key+"="+tc.value, func(t *testing.T) {
			annotations := map[string]string{}
			for key, value := range right {
				annotations[key] = value
			}
			annotations[tc.key] = tc.value
			want := full()
			tc.without(&want)
			s, errs := ParseSettings(annotations)
			assert.Equal(t, want, s)
			require.Len(t, errs, 1)
			var fe *FieldError
			require.ErrorAs(t, errs[0], &fe)
			assert.Equal(t, tc.key, fe.Field)
			assert.Equal(t, tc.value, fe.Value)
			assert.Contains(t, errs[0].Error(), tc.says)
		})
	}
}

func TestParseSettingsNamesEveryMistakeInOrder(t *testing.T) {
	s, errs := ParseSettings(map[string]string{
		AnnotationContainers: "A", AnnotationMode: "b", AnnotationCertFlag: "c", AnnotationKeyFlag: "d",
		AnnotationMountPath: "e", AnnotationHTTPSProbes: "f", AnnotationProxyProtocol: "g",
	})
	assert.Zero(t, s)
	var fields []string
	for _, err := range errs {
		var fe *FieldError
		require.ErrorAs(t, err, &fe)
		fields = append(fields, fe.Field)
	}
	assert.Equal(t, []string{AnnotationContainers, AnnotationMode, AnnotationCertFlag, AnnotationKeyFlag, AnnotationMountPath, AnnotationHTTPSProbes, AnnotationProxyProtocol}, fields)
}

func TestParseSettingsOfFlagsThatContradict(t *testing.T) {
	for name, tc := range map[string]struct {
		cert, key string
		value     string // what the error quotes
	}{
		"the same":                    {"--tls", "--tls", "--tls"},
		"the default of the key":      {cert: DefaultKeyFlag, value: DefaultKeyFlag},
		"the default of the cert":     {key: DefaultCertFlag, value: DefaultCertFlag},
		"the same as a default twice": {DefaultCertFlag, DefaultCertFlag, DefaultCertFlag},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{AnnotationMode: "env"}
			if tc.cert != "" {
				annotations[AnnotationCertFlag] = tc.cert
			}
			if tc.key != "" {
				annotations[AnnotationKeyFlag] = tc.key
			}
			s, errs := ParseSettings(annotations)
			assert.Equal(t, Settings{Mode: ModeEnv}, s, "neither flag is taken, the rest is")
			require.Len(t, errs, 1)
			assert.EqualError(t, errs[0], `servingcert.dev/key-flag: "`+tc.value+`": is also the flag of the certificate (servingcert.dev/cert-flag): must be another flag`)
		})
	}
	s, errs := ParseSettings(map[string]string{AnnotationCertFlag: DefaultKeyFlag, AnnotationKeyFlag: DefaultCertFlag})
	assert.Empty(t, errs, "the two defaults exchanged are two flags")
	assert.Equal(t, Settings{CertFlag: DefaultKeyFlag, KeyFlag: DefaultCertFlag}, s)
}

const portNumbers = "must be a comma-separated list of numbers of ports, each from 1 to 65535"

func TestBoundsOfSettings(t *testing.T) {
	flag, dir := "--"+strings.Repeat("a", 100), "/"+strings.Repeat("a", 511)
	s, errs := ParseSettings(map[string]string{AnnotationCertFlag: flag, AnnotationMountPath: dir})
	assert.Empty(t, errs)
	assert.Equal(t, Settings{CertFlag: flag, MountPath: dir}, s)
	_, errs = ParseSettings(map[string]string{AnnotationCertFlag: flag + "a", AnnotationMountPath: dir + "a"})
	assert.Len(t, errs, 2)
	ports := strings.TrimSuffix(strings.Repeat("65535,", MaxProxyPorts), ",")
	for value, detail := range map[string]string{
		ports: "", ports + ",1": "17 ports: must be at most 16",
		strings.Repeat(" ", maxProxyProtocol-1) + "1": "", strings.Repeat(" ", maxProxyProtocol) + "1": "129 bytes: must be at most 128",
		strings.Repeat("1", 1<<20): "1048576 bytes: must be at most 128", "65536": portNumbers, "0": portNumbers, "08081": portNumbers, "+1": portNumbers, "": portNumbers, ",": portNumbers,
	} {
		_, errs = ParseSettings(map[string]string{AnnotationProxyProtocol: value})
		if assert.Equal(t, detail != "", len(errs) == 1, value) && detail != "" {
			assert.ErrorContains(t, errs[0], detail)
		}
	}
	for _, closed := range closedPaths {
		for _, path := range []string{closed, closed + "/", closed + "/x"} {
			_, errs = ParseSettings(map[string]string{AnnotationMountPath: path})
			assert.Len(t, errs, 1, path)
		}
		_, errs = ParseSettings(map[string]string{AnnotationMountPath: closed + "-x"})
		assert.Empty(t, errs, "a directory beside %s", closed)
	}
	for control, refused := range map[string]bool{"\x1f": true, " ": false, "\x7e": false, "\x7f": true, "\\": true, "$": true, ":": true} {
		_, errs = ParseSettings(map[string]string{AnnotationMountPath: "/a" + control + "b"})
		assert.Equal(t, refused, len(errs) == 1, "%q", control)
	}
}
