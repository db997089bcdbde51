package timeline

import (
	"html/template"
	"strings"
)

// page is one file without scripts: what stands in it cannot ask for anything.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clock": clock,
	"words": func(k MarkKind) string { return words[k] },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
body { font-family: system-ui, sans-serif; max-width: 60rem; margin: 1rem auto; padding: 0 1rem; color: #222; background: #fff; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; margin-bottom: 1rem; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
h2 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
</style>
</head>
<body>
{{.Picture}}
{{- range .Missing}}
<p>Not shown: {{.}}</p>
{{- end}}
{{- range .Lanes}}
<h2>{{.Name}}</h2>
{{- with .About}}
<p>{{.}}</p>
{{- end}}
<table>
{{- range .Marks}}
<tr><td><time datetime="{{clock .At}}">{{clock .At}}</time></td><td>{{words .Kind}}</td></tr>
{{- end}}
</table>
{{- end}}
</body>
</html>
`))

// HTML returns the timeline as one HTML file: the SVG, and below it when what happens.
func (t Timeline) HTML() (string, error) {
	var b strings.Builder
	err := page.Execute(&b, struct {
		Timeline
		Title   string
		Picture template.HTML
	}{t, t.title(), template.HTML(t.SVG())})
	return b.String(), err
}
