package reference

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"

	"golang.org/x/tools/go/packages"
)

// load parses and type-checks the packages that match the patterns, sequentially, with imported packages from the build
// cache. packages.Load would check several concurrently, which is a data race in go/types of Go 1.27
// (https://go.dev/issue/81122).
func load(root string, patterns ...string) ([]*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedExportFile,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	exports := map[string]string{}
	packages.Visit(loaded, nil, func(p *packages.Package) { exports[p.PkgPath] = p.ExportFile })
	fset := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("load %s: %w", p.PkgPath, p.Errors[0])
		}
		if err := check(p, fset, config); err != nil {
			return nil, fmt.Errorf("load %s: %w", p.PkgPath, err)
		}
	}
	return loaded, nil
}

// check sets the syntax and the types of a package.
func check(p *packages.Package, fset *token.FileSet, config types.Config) error {
	for _, name := range p.CompiledGoFiles {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		p.Syntax = append(p.Syntax, file)
	}
	p.TypesInfo = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	var err error
	p.Types, err = config.Check(p.PkgPath, fset, p.Syntax, p.TypesInfo)
	return err
}
