// Package page renders a plan as a self-contained HTML page: no scripts, no fonts, no requests. A
// browser can open it from a file.
package page

import (
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

//go:embed page.html
var text string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"way": func(w plan.Way) string { return ways[w].badge }, "today": func(t plan.Today) string { return todays[t] }, "count": api.Count,
}).Parse(text))

// ways are the labels of the ways on the page.
var ways = map[plan.Way]struct{ badge, about string }{
	plan.WayPort:    {"add a port", "TLS at a port of its own"},
	plan.WayNative:  {"annotate", "the program uses a certificate"},
	plan.WayRollout: {"roll out", "the pods are older than the request for TLS"},
	plan.WayMove:    {"move clients", "TLS is served beside plaintext"},
	plan.WayCheck:   {"not verified", "its ports should serve TLS, or the webhook refuses their proxy"},
	plan.WayDone:    {"nothing to do", "its ports serve TLS"},
	plan.WayNone:    {"not possible", "the cause is shown below"},
}

var todays = map[plan.Today]string{
	plan.TodayTLS: "TLS", plan.TodayOwn: "TLS, its own", plan.TodayDeclared: "TLS, not verified", plan.TodayProxy: "TLS, by the proxy",
	plan.TodayAny: "TLS and plaintext", plan.TodayAsked: "nothing: the proxy is missing", plan.TodayPlaintext: "plaintext", plan.TodayUnknown: "unknown",
}

// share is a part of the bar at the top.
type share struct {
	Way   plan.Way
	Badge string
	About string
	Count int
}

// group is a section: the Services of one wave, or those without one.
type group struct {
	Title    string
	Services []plan.Service
}

// Write writes the page. title is the cluster or the files of the plan.
func Write(w io.Writer, p plan.Plan, title string) error {
	data := struct {
		Title  string
		Plan   plan.Plan
		Shares []share
		Groups []group
	}{Title: title, Plan: p}
	for _, way := range plan.Ways() {
		if n := p.Totals.Ways[way]; n > 0 {
			data.Shares = append(data.Shares, share{way, ways[way].badge, ways[way].about, n})
		}
	}
	for _, s := range p.Services {
		wave := s.Wave
		if wave == 0 && s.Guard != nil {
			wave = s.Guard.Wave
		}
		title := fmt.Sprintf("Wave %d", wave)
		if wave == 0 {
			title = "Nothing to do, not verified, or not possible"
		}
		i := slices.IndexFunc(data.Groups, func(g group) bool { return g.Title == title })
		if i < 0 {
			i = len(data.Groups)
			data.Groups = append(data.Groups, group{Title: title})
		}
		data.Groups[i].Services = append(data.Groups[i].Services, s)
	}
	var b strings.Builder
	if err := page.Execute(&b, data); err != nil {
		return err
	}
	_, err := io.WriteString(w, api.EscapeLines(b.String())) // such as names that change the direction of text
	return err
}
