package hostfiles_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

func TestParse(t *testing.T) {
	c, err := hostfiles.Parse([]byte(`
stores:
- name: kube-scheduler
  names: [kube-scheduler.kube-system.svc]
  path: /etc/kubernetes/static-pod-resources/secrets/serving-cert
  mode: "0640"
  combined: true
  owner: {uid: 0, gid: 1000}
  action:
    staticPod: {manifest: /etc/kubernetes/manifests/kube-scheduler.yaml}
    window: 10m
  check: {address: "127.0.0.1:10259", serverName: kube-scheduler.kube-system.svc}
- name: anchors
  kind: bundle
  from: /other
  path: /etc/pki/ca-trust/source/anchors/servingcert.pem
  action: {exec: [/usr/bin/update-ca-trust, extract], timeout: 1m}
`), "/source")
	require.NoError(t, err)
	first, second := c.Stores[0], c.Stores[1]
	assert.Equal(t, "/source", first.From)
	assert.EqualValues(t, 0o640, first.Mode)
	assert.True(t, first.Combined)
	assert.Equal(t, []int{0, 1000}, []int{first.UID, first.GID})
	assert.Equal(t, 10*time.Minute, first.Action.Window)
	assert.Equal(t, 30*time.Second, first.Action.Timeout)
	assert.Equal(t, 2*time.Minute, first.Check.Timeout)
	assert.Equal(t, hostfiles.Bundle, second.Kind)
	assert.EqualValues(t, 0o644, second.Mode)
	assert.Equal(t, "run /usr/bin/update-ca-trust extract", second.Action.String())
}

func TestParseAcceptsItsBounds(t *testing.T) {
	// A store without a path overlaps with no other.
	text := "stores:\n- {name: s0, from: /f, action: {exec: [/a], timeout: 1s, window: 24h}}\n" +
		"- {name: s1, from: /f, path: /p, owner: {uid: 2147483647}}\n"
	for i := 2; i < hostfiles.MaxStores; i++ {
		text += fmt.Sprintf("- {name: s%d, from: /f}\n", i)
	}
	c, err := hostfiles.Parse([]byte(text), "")
	require.NoError(t, err)
	assert.Len(t, c.Stores, hostfiles.MaxStores)
}

func TestActionString(t *testing.T) {
	for want, a := range map[string]hostfiles.Action{
		"send SIGHUP to the process in /p": {Signal: &hostfiles.Signal{PIDFile: "/p", Signal: "HUP"}},
		"reload unit a.service":            {Systemd: &hostfiles.Systemd{Unit: "a.service", Verb: "reload"}},
		"run /a":                           {Exec: []string{"/a"}},
		"restart the static pod of /m":     {StaticPod: &hostfiles.StaticPod{Manifest: "/m"}},
		"none":                             {},
	} {
		assert.Equal(t, want, a.String())
		assert.Equal(t, want == "none", a.None(), want)
	}
}

func TestParseErrors(t *testing.T) {
	const store = "stores:\n- name: web\n  from: /from\n"
	for text, want := range map[string]string{
		"":                                    "is empty",
		"{}":                                  "line 1: configuration: must have a list of stores",
		"a: b":                                `line 1: configuration: "a": unknown field: must be one of stores`,
		"stores: []":                          "line 1: stores: must be a list of 1 to 32 elements",
		"stores:\n- from: /from":              "line 2: stores[0]: must have a name",
		"stores:\n- name: web":                "line 2: stores[0]: must have from",
		"stores:\n- {name: ../etc, from: /x}": `stores[0].name: "../etc": must be 1 to 63`,
		store + "  mode: \"0666\"":            `line 4: stores[0].mode: "0666": must be octal permissions`,
		store + "  mode: \"0755\"":            `stores[0].mode: "0755"`,
		store + "  mode: \"1644\"":            `stores[0].mode: "1644"`,
		store + "  mode: \"0040\"":            `stores[0].mode: "0040"`,
		store + "  path: relative":            `line 4: stores[0].path: "relative": must be an absolute path`,
		store + "  path: /a/../b":             `must be an absolute path`,
		store + "  kind: other":               `"other": must be one of pair, bundle`,
		store + "  kind: bundle":              "must have path, the file to write",
		store + "  kind: bundle\n  path: /a\n  check: {address: \"1.2.3.4:5\"}": "stores[0].check: is not allowed",
		store + "  names: [UPPER]":                                 `names[0]: "UPPER": must be a DNS name`,
		store + "  action: {}":                                     "must have exactly one of none, signal",
		store + "  action: {exec: [nginx]}":                        `action.exec[0]: "nginx": must be an absolute path`,
		store + "  action: {exec: [/a], none: {}}":                 "must have exactly one of",
		store + "  action: {signal: {pidfile: /p, signal: KILL}}":  `"KILL": must be one of HUP, INT`,
		store + "  action: {signal: {pidfile: /p}}":                "must have the field signal",
		store + "  action: {systemd: {unit: \"a b\", verb: stop}}": `"stop": must be one of reload, restart`,
		store + "  action: {exec: [/a], timeout: 1h}":              `"1h": must be a duration from 1s to 10m0s`,
		store + "  check: {address: \"localhost:1\"}":              `"localhost:1": must be an IP address and a port`,
		store + "  check: {address: \"127.0.0.1:0\"}":              `"127.0.0.1:0": must be an IP address and a port`,
		store + "  owner: {uid: 2147483648}":                       `"2147483648": must be a number from 0 to 2147483647`,
		store + "  owner: {gid: root}":                             `"root": must be a number`,
		store + "  owner: {gid: -1}":                               `"-1": must be a number`,
		store + "  action: {exec: [/a], timeout: soon}":            `"soon": must be a duration`,
		"stores:\n- {name: a/b, from: /x}":                         `"a/b": must be 1 to 63`,
		"stores:\n- {name: a..b, from: /x}":                        `"a..b": must be 1 to 63`,
		strings.Repeat("#", hostfiles.MaxConfig):                   "is empty",
		store + "  check: {timeout: 1m}":                           "must have an address",
		store + "- {name: web, from: /x}":                          `"web": is also the name of another store`,
		store + "  path: /a\n- {name: b, from: /x, path: /a/b}":    "overlaps with the path of store web",
		store + "  name: again":                                    `"name": duplicate field`,
		store + "  from: &a /b\n":                                  "duplicate field",
		"stores: [":                                                "line 1",
		strings.Repeat("#", hostfiles.MaxConfig+1):                 "must be at most",
	} {
		_, err := hostfiles.Parse([]byte(text), "")
		assert.ErrorContains(t, err, want, text)
	}
}

func TestAnnotate(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a # kept\nspec: {}\n", "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    servingcert.dev/host-content: \"v\"\n  name: a # kept\nspec: {}\n"},
		{"kind: Pod\nmetadata:\n    annotations:\n        a: b\n", "kind: Pod\nmetadata:\n    annotations:\n        servingcert.dev/host-content: \"v\"\n        a: b\n"},
		{"kind: Pod\nmetadata:\n  annotations:\n    a: b\n    servingcert.dev/host-content: \"old\"\n  name: x\n", "kind: Pod\nmetadata:\n  annotations:\n    a: b\n    servingcert.dev/host-content: \"v\"\n  name: x\n"},
	} {
		got, err := hostfiles.Annotate([]byte(c.in), "v")
		require.NoError(t, err)
		assert.Equal(t, c.want, string(got))
		again, err := hostfiles.Annotate(got, "v")
		require.NoError(t, err)
		assert.Equal(t, string(got), string(again))
	}
	for _, bad := range []string{
		"kind: Pod\n", "metadata:\n  name: a\n", "kind: Pod\nmetadata:\n  annotations:\n    a: [b]\n",
		"", "kind: Deployment\nmetadata:\n  name: a\n", `{"kind": "Pod", "metadata": {"name": "a"}}`, "kind: Pod\nmetadata:\n  name: a\n  annotations: {}\n", "kind: [",
		"kind: Pod\nmetadata:\n  name: a\n  annotations:\n    servingcert.dev/host-content: |\n      a\n      b\n",
	} {
		_, err := hostfiles.Annotate([]byte(bad), "v")
		assert.Error(t, err, bad)
	}
}
