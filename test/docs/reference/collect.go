// Package reference generates docs/reference-generated.md from the code: metrics, log messages, flags, reasons and
// annotations. Its test fails if the page is outdated.
//
// It evaluates types and constants, so that names composed of constants are found too.
package reference

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Reference is the content of the page.
type Reference struct {
	Metrics []Metric
	Logs    []Log
	Flags   []Flag
	Values  map[string][]Value // by package and type, such as signer.Reason; for constants without a type, by group
}

// Metric is a registered metric.
type Metric struct {
	Name, Kind, Help string
	Labels           []string
	Package          string
}

// Log is a message at level Info or Error.
type Log struct{ Level, Message, Package string }

// Flag is a flag of a process or of the plugin.
type Flag struct{ Program, Name, Usage string }

// Value is a constant with the first sentence of its comment.
type Value struct{ Value, Comment string }

// Collect reads the packages of the module whose directory is root.
func Collect(root string) (*Reference, error) {
	loaded, err := load(root, "./pkg/...", "./cmd/...")
	if err != nil {
		return nil, err
	}
	r := &Reference{Values: map[string][]Value{}}
	for _, p := range loaded {
		_, path, _ := strings.Cut(p.PkgPath, "servingcert/servingcert/")
		path = strings.TrimSuffix(path, "/app") // a program has the name of its command
		s := source{p, path, r}
		for _, file := range p.Syntax {
			ast.Inspect(file, s.look)
		}
	}
	r.sort()
	return r, nil
}

// sort sorts everything, and removes duplicates.
func (r *Reference) sort() {
	slices.SortFunc(r.Metrics, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	compare := func(a, b Log) int {
		return strings.Compare(a.Package+a.Level+a.Message, b.Package+b.Level+b.Message)
	}
	slices.SortFunc(r.Logs, compare)
	r.Logs = slices.Compact(r.Logs)
	slices.SortFunc(r.Flags, func(a, b Flag) int {
		return cmp.Or(strings.Compare(a.Program, b.Program), strings.Compare(a.Name, b.Name), strings.Compare(a.Usage, b.Usage))
	})
	r.Flags = slices.Compact(r.Flags)
	for name, values := range r.Values {
		if name == "events" || name == "annotations" {
			slices.SortFunc(values, func(a, b Value) int { return strings.Compare(a.Value, b.Value) })
		}
		r.Values[name] = slices.CompactFunc(values, func(a, b Value) bool { return a.Value == b.Value })
	}
}

// source is a package.
type source struct {
	*packages.Package
	path string // below the module
	r    *Reference
}

func (s source) look(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.CallExpr:
		s.call(n)
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			s.constants(n)
		}
	}
	return true
}

// text returns the value of a constant string.
func (s source) text(e ast.Expr) (string, bool) {
	v := s.TypesInfo.Types[e].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(v), true
}

// texts returns the constant strings in a composite literal, or in a variable of this package that is one.
func (s source) texts(e ast.Expr) []string {
	if id, ok := e.(*ast.Ident); ok && id.Obj != nil {
		if assigned, ok := id.Obj.Decl.(*ast.AssignStmt); ok {
			e = assigned.Rhs[0]
		}
	}
	var all []string
	if list, ok := e.(*ast.CompositeLit); ok {
		for _, element := range list.Elts {
			if text, ok := s.text(element); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

var (
	registers = regexp.MustCompile(`^(String|Bool|Int|Float|Duration)\w*Var$`)
	kinds     = map[string]string{"NewCounter": "counter", "NewCounterVec": "counter", "NewGauge": "gauge", "NewGaugeVec": "gauge", "NewHistogram": "histogram", "NewHistogramVec": "histogram"}
)

func (s source) call(c *ast.CallExpr) {
	selector, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) == 0 {
		return
	}
	f, ok := s.TypesInfo.Uses[selector.Sel].(*types.Func)
	if !ok || f.Pkg() == nil {
		return
	}
	switch name, from := f.Name(), f.Pkg().Path(); {
	case strings.HasSuffix(from, "pkg/exposition") && name == "Family":
		s.family(c)
	case strings.HasSuffix(from, "pkg/proxy/server") && len(c.Args) > 1 && (name == "info" || name == "warn" || name == "error"):
		s.log(name, c.Args[0])
	case from == "log/slog" && (name == "Info" || name == "Warn" || name == "Error"):
		s.log(strings.ToLower(name), c.Args[0])
	case strings.HasSuffix(from, "client_golang/prometheus"):
		s.metric(name, c)
	case from == "github.com/spf13/pflag" && registers.MatchString(name):
		s.flag(c)
	case from == "github.com/go-logr/logr" && name == "Info" && !verbose(selector.X):
		s.log("info", c.Args[0])
	case from == "github.com/go-logr/logr" && name == "Error" && len(c.Args) > 1:
		s.log("error", c.Args[1])
	}
}

// verbose reports whether the logger is the result of V, with a level below Info.
func verbose(logger ast.Expr) bool {
	if id, ok := logger.(*ast.Ident); ok && id.Obj != nil {
		if assigned, ok := id.Obj.Decl.(*ast.AssignStmt); ok && len(assigned.Rhs) == 1 {
			logger = assigned.Rhs[0]
		}
	}
	c, ok := logger.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := c.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "V"
}

func (s source) log(level string, message ast.Expr) {
	if text, ok := s.text(message); ok {
		s.r.Logs = append(s.r.Logs, Log{level, text, s.path})
	}
}

func (s source) flag(c *ast.CallExpr) {
	name, ok := s.text(c.Args[1])
	if !ok {
		return
	}
	usage, _ := s.text(c.Args[len(c.Args)-1])
	s.r.Flags = append(s.r.Flags, Flag{strings.Split(strings.TrimPrefix(s.path, "cmd/"), "/")[0], name, usage})
}

func (s source) metric(constructor string, c *ast.CallExpr) {
	m := Metric{Package: s.path}
	if constructor == "NewDesc" {
		m.Name, _ = s.text(c.Args[0])
		m.Help, _ = s.text(c.Args[1])
		m.Kind, m.Labels = "gauge", s.texts(c.Args[2])
	} else if m.Kind = kinds[constructor]; m.Kind != "" {
		s.options(&m, c.Args[0])
		if len(c.Args) > 1 {
			m.Labels = s.texts(c.Args[1])
		}
	}
	if strings.HasPrefix(m.Name, "servingcert_") {
		if strings.HasSuffix(m.Name, "_total") {
			m.Kind = "counter"
		}
		s.r.Metrics = append(s.r.Metrics, m)
	}
}

// family reads a metric of a process that writes the text format itself: name, kind, help and labels.
func (s source) family(c *ast.CallExpr) {
	m := Metric{Package: s.path}
	m.Name, _ = s.text(c.Args[0])
	m.Kind, _ = s.text(c.Args[1])
	m.Help, _ = s.text(c.Args[2])
	for _, label := range c.Args[3:] {
		if text, ok := s.text(label); ok {
			m.Labels = append(m.Labels, text)
		}
	}
	s.r.Metrics = append(s.r.Metrics, m)
}

// options reads prometheus.CounterOpts and the like.
func (s source) options(m *Metric, e ast.Expr) {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range list.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key := field.Key.(*ast.Ident).Name; key {
		case "Name":
			m.Name, _ = s.text(field.Value)
		case "Help":
			m.Help, _ = s.text(field.Value)
		case "ConstLabels":
			if labels, ok := field.Value.(*ast.CompositeLit); ok {
				for _, l := range labels.Elts {
					if name, ok := s.text(l.(*ast.KeyValueExpr).Key); ok {
						m.Labels = append(m.Labels, name)
					}
				}
			}
		}
	}
}
