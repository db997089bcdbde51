package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEgress: a NetworkPolicy that admits the plaintext port of a server and not its TLS port.
func TestEgress(t *testing.T) {
	const note = "NetworkPolicy limit limits the egress of Deployment/cart: allow port 15444 of Deployment/web in it too, where port 80 of shop/web has TLS"
	for rules, want := range map[string]bool{
		"[]":                        false, // nothing was admitted before either
		"[{}]":                      false,
		"[{ports: [{port: 8080}]}]": true,
		"[{ports: [{port: 80}]}]":   false, // that of the Service is not compared
		"[{ports: [{port: 8080, protocol: UDP}]}]":                                                                                   false,
		"[{ports: [{port: 8080}, {port: 15444}]}]":                                                                                   false,
		"[{ports: [{port: 8080, endPort: 20000}]}]":                                                                                  false,
		"[{ports: [{port: sc-tls-8080}, {port: 8080}]}]":                                                                             false,
		"[{to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 8080}]}]":                                                  true,
		"[{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: 8080}]}]":                                                   false,
		"[{to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 8080}]}, {to: [{podSelector: {matchLabels: {app: db}}}]}]": true,
		"[{to: [{namespaceSelector: {}}], ports: [{port: 8080}]}]":                                                                   true,
		"[{to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 8080}]}]":                                                             true,
	} {
		policy := "---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: limit, namespace: shop}, spec: {podSelector: {matchLabels: {app: cart}}, policyTypes: [Egress], egress: " + rules + "}}\n"
		notes := strings.Join(clientOf(t, planOf(t, servers+caller("'http://web'", "", "")+policy), "shop/Deployment/cart").Notes, "\n")
		assert.Equal(t, want, strings.Contains(notes, note), "%s: %s", rules, notes)
		other := strings.Replace(policy, "app: cart", "app: another", 1)
		assert.Empty(t, clientOf(t, planOf(t, servers+caller("'http://web'", "", "")+other), "shop/Deployment/cart").Notes)
	}
}
