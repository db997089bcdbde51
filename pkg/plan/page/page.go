// Package page renders a plan as one HTML page that needs nothing else: no script, no font, no
// request. A browser opens it from a file.
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
	"way": func(w plan.Way) string { return words[w].badge }, "today": func(t plan.Today) string { return todays[t] }, "count": count,
}).Parse(text))

// words are a way in the words of the page.
var words = map[plan.Way]struct{ badge, about string }{
	plan.WayPort:    {"add a port", "TLS by a port of its own"},
	plan.WayNative:  {"annotate", "the program takes a certificate"},
	plan.WayRollout: {"roll out", "the Service asks, its pods are older"},
	plan.WayMove:    {"move clients", "TLS is there, beside plaintext"},
	plan.WayCheck:   {"not seen", "its ports are to be TLS; nobody looked"},
	plan.WayDone:    {"nothing to do", "its ports are TLS already"},
	plan.WayNone:    {"not possible", "the page says why"},
}

var todays = map[plan.Today]string{
	plan.TodayTLS: "TLS", plan.TodayOwn: "TLS, its own", plan.TodayDeclared: "TLS, as its name says", plan.TodayProxy: "TLS, by the proxy",
	plan.TodayAny: "TLS and plaintext", plan.TodayAsked: "nothing yet: the proxy is missing", plan.TodayPlaintext: "plaintext", plan.TodayUnknown: "unknown",
}

// share is a part of the bar at the top.
type share struct {
	Way   plan.Way
	Badge string
	About string
	Count int
}

// group is a section: the Services of one wave, or those of which nothing is to be done.
type group struct {
	Title    string
	Services []plan.Service
}

// Write writes the page. title says which cluster, or which files, the plan is of.
func Write(w io.Writer, p plan.Plan, title string) error {
	data := struct {
		Title  string
		Plan   plan.Plan
		Shares []share
		Groups []group
	}{Title: title, Plan: p}
	for _, way := range plan.Ways() {
		if n := p.Totals.Ways[way]; n > 0 {
			data.Shares = append(data.Shares, share{way, words[way].badge, words[way].about, n})
		}
	}
	for _, s := range p.Services {
		title := fmt.Sprintf("Wave %d", s.Wave)
		if s.Wave == 0 {
			title = "Nothing to do, not seen, or not possible"
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
	_, err := io.WriteString(w, api.EscapeLines(b.String())) // names that change the direction of text, above all
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
