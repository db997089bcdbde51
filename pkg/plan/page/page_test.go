package page

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
	"github.com/servingcert/servingcert/pkg/preview"
)

func rendered(t *testing.T, manifests string) string {
	t.Helper()
	docs, err := preview.Parse("shop.yaml", []byte(manifests))
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, Write(&b, plan.OfManifests(docs, "", plan.Options{}), "shop.yaml"))
	return b.String()
}

// TestThePageIsSelfContained: it makes no requests, and it lists each Service.
func TestThePageIsSelfContained(t *testing.T) {
	in, err := os.ReadFile("../testdata/shop.yaml")
	require.NoError(t, err)
	html := rendered(t, string(in))
	assert.NotRegexp(t, `(?i)\b(src|href|action|srcset)=|@import|url\(|<script|<link`, html)
	for _, name := range []string{"ready/beside", "ready/grafana", "shop/redis", "shop/api", "shop/web", "shop/agent", "shop/outside"} {
		assert.Contains(t, html, `<span class="name">`+name+`</span>`)
	}
	assert.NotContains(t, html, "admin:secret", "passwords of addresses are not shown")
	assert.Len(t, regexp.MustCompile(`<details`).FindAllString(html, -1), 9+3, "the Services and the clients")
}

// TestEveryWayAndProtocolHasALabel: without one, it would be empty on the page.
func TestEveryWayAndProtocolHasALabel(t *testing.T) {
	for _, w := range plan.Ways() {
		assert.NotEmpty(t, ways[w].badge, w)
	}
	assert.Len(t, todays, 8)
}

// TestNamesAreNotMarkup: names in manifests are untrusted.
func TestNamesAreNotMarkup(t *testing.T) {
	html := rendered(t, `{apiVersion: v1, kind: Service, metadata: {name: "<script>alert(1)</script>"}, spec: {selector: {a: "<b>"}, ports: [{port: 80, name: "<i>"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "<img>", labels: {a: "<b>"}}, spec: {containers: [{name: "<u>", image: i}]}}`)
	assert.NotRegexp(t, `<(script|b>|i>|img|u>)[^0-9]`, strings.ReplaceAll(html, "<b>1</b>", ""))
	assert.Contains(t, html, "&lt;script&gt;")
}

// TestNamesDoNotTurnTheText: a browser follows characters that change the direction of text.
func TestNamesDoNotTurnTheText(t *testing.T) {
	html := rendered(t, "{apiVersion: v1, kind: Service, metadata: {name: \"web\\u202egnp.exe\", annotations: {a: \"\\u2066\"}}, spec: {selector: {a: b}, ports: [{port: 80}]}}")
	assert.Equal(t, api.EscapeLines(html), html)
	assert.Contains(t, html, `web\u202egnp.exe`)
}

// TestListsOfClientsAreSteps: a Service that serves TLS may still get a list of its clients.
func TestListsOfClientsAreSteps(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Write(&b, plan.Plan{Services: []plan.Service{
		{Namespace: "shop", Name: "db", Way: plan.WayDone, Guard: &plan.Guard{Wave: 2}, Steps: []plan.Step{{What: "list", Command: "a", Back: "b"}}},
		{Namespace: "shop", Name: "web", Way: plan.WayDone, Guard: &plan.Guard{Why: "an Ingress"}},
	}}, "x"))
	assert.Regexp(t, `<h2>Wave 2 [^§]*<span class="name">shop/db</span>[^§]*Back:</p><pre>b</pre>[^§]*<h2>Nothing to do[^§]*stays as it is: an Ingress`, b.String())
}
