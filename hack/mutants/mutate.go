package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// change is one place of the code, and what it becomes.
type change struct {
	at       token.Position
	was, now string
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d:%d: %s → %s", c.at.Filename, c.at.Line, c.at.Column, oneLine(c.was), oneLine(c.now))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// mutants are the changes of a package, and its files with all of them in.
type mutants struct {
	path    string
	name    string
	dir     string
	changes []change
	files   map[string]string // by the path of the original
}

// mutate returns the changes of a package.
func mutate(ctx context.Context, pattern string) (*mutants, error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx,
		Mode:    packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}, pattern)
	if err != nil {
		return nil, err
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 || len(loaded[0].GoFiles) == 0 {
		return nil, fmt.Errorf("%s is not one package that compiles: %v", pattern, loaded)
	}
	p := loaded[0]
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	m := &mutants{path: p.PkgPath, name: p.Name, dir: filepath.Dir(p.GoFiles[0]), files: map[string]string{}}
	for _, file := range p.Syntax {
		path := p.Fset.Position(file.FileStart).Filename
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		shown, err := filepath.Rel(here, path)
		if err != nil {
			shown = path
		}
		f := &rewriter{m: m, fset: p.Fset, info: p.TypesInfo, source: string(source), shown: shown}
		f.file(file)
		m.files[path] = f.text(0, len(source))
	}
	return m, nil
}

// write writes the changed files into the directory, and returns the overlay that puts them in
// the place of the originals, as -overlay of go build reads it.
func (m *mutants) write(dir string) (string, error) {
	replace := map[string]string{}
	add := func(path, text string) error {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		return os.WriteFile(replace[path], []byte(text), 0o644)
	}
	for path, text := range m.files {
		if err := add(path, text); err != nil {
			return "", err
		}
	}
	if err := add(filepath.Join(m.dir, "mutants_schemata.go"), fmt.Sprintf(schemata, m.name)); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, overlay, 0o644)
}

// edit puts a text in the place of a part of a file.
type edit struct {
	start, end int
	text       string
}

// rewriter collects the edits of one file, from the innermost expressions to the outermost.
type rewriter struct {
	m      *mutants
	fset   *token.FileSet
	info   *types.Info
	source string
	shown  string
	edits  []edit
}

// file makes the edits of a file. Conditions are what statements and the operators of Booleans have.
func (f *rewriter) file(file *ast.File) {
	conditions := map[ast.Expr]bool{}
	for n := range ast.Preorder(file) {
		switch n := n.(type) {
		case *ast.IfStmt:
			conditions[n.Cond] = true
		case *ast.ForStmt:
			conditions[n.Cond] = true
		case *ast.SwitchStmt:
			for _, clause := range n.Body.List {
				for _, e := range clause.(*ast.CaseClause).List {
					conditions[e] = n.Tag == nil
				}
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				conditions[n.X], conditions[n.Y] = true, true
			}
		case *ast.UnaryExpr:
			conditions[n] = conditions[n] || n.Op == token.NOT
		}
	}
	var open []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n != nil {
			open = append(open, n)
			return true
		}
		last := open[len(open)-1]
		open = open[:len(open)-1]
		f.node(last, conditions)
		return true
	})
}

// opposite and shifted are what becomes of an operator.
var (
	opposite = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
	}
	shifted = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	signs   = map[token.Token]token.Token{token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL}
	assigns = map[token.Token]token.Token{
		token.ADD_ASSIGN: token.ADD, token.SUB_ASSIGN: token.SUB, token.MUL_ASSIGN: token.MUL, token.QUO_ASSIGN: token.QUO,
	}
)

// node makes the edits of one node, whose parts have been edited.
func (f *rewriter) node(n ast.Node, conditions map[ast.Expr]bool) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch {
		case f.constant(n):
		case n.Op == token.SHL:
			f.shift(n)
		case opposite[n.Op] != 0:
			f.comparison(n)
		case signs[n.Op] != 0 && f.number(n):
			f.sign(n, n.X, n.Y, n.Op, "")
		}
	case *ast.AssignStmt:
		if op := assigns[n.Tok]; op != 0 && f.number(n.Lhs[0]) && !calls(n.Lhs[0]) {
			f.sign(n, n.Lhs[0], n.Rhs[0], op, f.of(n.Lhs[0])+" = ")
		}
	case ast.Expr:
		if conditions[n] && !f.constant(n) {
			id := f.add(n, f.original(n), "!("+f.original(n)+")")
			f.replace(n, fmt.Sprintf("(mutantOn(%d) != bool(%s))", id, f.of(n)))
		}
	}
}

func (f *rewriter) comparison(n *ast.BinaryExpr) {
	text := f.of(n)
	with := func(op token.Token) string { return f.of(n.X) + " " + op.String() + " " + f.of(n.Y) }
	for _, op := range []token.Token{opposite[n.Op], shifted[n.Op]} {
		if op != 0 {
			id := f.add(n, f.original(n), f.original(n.X)+" "+op.String()+" "+f.original(n.Y))
			text = fmt.Sprintf("(mutantOn(%d) && (%s) || !mutantOn(%d) && (%s))", id, with(op), id, text)
		}
	}
	f.replace(n, text)
}

func (f *rewriter) sign(n ast.Node, x, y ast.Expr, op token.Token, prefix string) {
	id := f.add(n, f.original(n), f.original(x)+" "+signs[op].String()+" "+f.original(y))
	f.replace(n, fmt.Sprintf("%smutantSign(%d, '%s', %s, %s)", prefix, id, op, f.of(x), f.of(y)))
}

// shift names the type of a constant that is shifted. It is that of what the shift is a part of, where
// an edit puts a call whose type follows from its arguments.
func (f *rewriter) shift(n *ast.BinaryExpr) {
	if !f.constant(n.X) {
		return
	}
	name := types.TypeString(f.info.TypeOf(n.X), func(p *types.Package) string {
		if p.Path() == f.m.path {
			return ""
		}
		return p.Name()
	})
	f.replace(n.X, name+"("+f.of(n.X)+")")
}

func (f *rewriter) add(n ast.Node, was, now string) (id int) {
	at := f.fset.Position(n.Pos())
	at.Filename = f.shown
	f.m.changes = append(f.m.changes, change{at: at, was: was, now: now})
	return len(f.m.changes)
}

// constant reports whether the compiler has to know the expression's value.
func (f *rewriter) constant(n ast.Expr) bool { return f.info.Types[n].Value != nil }

func (f *rewriter) number(n ast.Expr) bool {
	basic, ok := f.info.TypeOf(n).Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0 && basic.Info()&types.IsComplex == 0
}

func calls(n ast.Expr) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		_, call := n.(*ast.CallExpr)
		found = found || call
		return true
	})
	return found
}

func (f *rewriter) original(n ast.Node) string { return f.source[f.offset(n.Pos()):f.offset(n.End())] }

func (f *rewriter) offset(pos token.Pos) int { return f.fset.Position(pos).Offset }

// of is the text of a node with the edits of its parts.
func (f *rewriter) of(n ast.Node) string { return f.text(f.offset(n.Pos()), f.offset(n.End())) }

func (f *rewriter) text(start, end int) string {
	var out strings.Builder
	at := start
	for _, e := range f.edits {
		if e.start >= start && e.end <= end {
			out.WriteString(f.source[at:e.start] + e.text)
			at = e.end
		}
	}
	return out.String() + f.source[at:end]
}

// replace puts a text in the place of a node and of the edits of its parts.
func (f *rewriter) replace(n ast.Node, text string) {
	now := edit{start: f.offset(n.Pos()), end: f.offset(n.End()), text: text}
	f.edits = slices.DeleteFunc(f.edits, func(e edit) bool { return e.start >= now.start && e.end <= now.end })
	f.edits = append(f.edits, now)
	slices.SortFunc(f.edits, func(a, b edit) int { return a.start - b.start })
}
