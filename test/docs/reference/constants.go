package reference

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strings"
)

// groups are the groups of constants without a type of their own, by prefixes of their Go names.
var groups = []struct{ name, pkg, prefix string }{
	{"events", "", "Event"},
	{"healthy", "api", "Pods"},
	{"serving", "api", "Serving"},
	{"guarded", "api", "Guarded"},
	{"podcert", "podcert", "reason"},
	{"csr", "csr", "reason"},
	{"ready", "api", "Reason"},
	{"ca", "api", "CA"},
	{"ca", "api", "Succession"},
	{"ca", "api", "Rotation"},
	{"phases", "api", "Phase"},
	{"conditions", "api", "Condition"},
	{"annotations", "api", "Annotation"},
	{"annotations", "api", "Label"},
}

// constants adds constant strings by type or name.
func (s source) constants(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		comment := firstLine(v.Doc.Text())
		if comment == "" {
			comment = firstLine(v.Comment.Text())
		}
		if comment == "" && len(decl.Specs) == 1 {
			comment = firstLine(decl.Doc.Text())
		}
		for _, id := range v.Names {
			c, ok := s.TypesInfo.Defs[id].(*types.Const)
			if !ok || c.Val().Kind() != constant.String || c.Parent() != s.Types.Scope() {
				continue
			}
			if group := s.groupOf(c); group != "" {
				s.r.Values[group] = append(s.r.Values[group], Value{constant.StringVal(c.Val()), without(comment, id.Name)})
			}
		}
	}
}

// groupOf returns the group of a constant, or "".
func (s source) groupOf(c *types.Const) string {
	if named, ok := c.Type().(*types.Named); ok {
		return strings.TrimPrefix(strings.TrimSuffix(s.path, "/controller"), "pkg/") + "." + named.Obj().Name()
	}
	for _, g := range groups {
		if strings.HasPrefix(c.Name(), g.prefix) && (g.pkg == "" || g.pkg == s.Name) && strings.HasPrefix(s.path, "pkg/") {
			return g.name
		}
	}
	return ""
}

// without returns the comment without the constant's name at its beginning.
func without(comment, name string) string {
	return strings.TrimLeft(strings.TrimPrefix(comment, name), ":, ")
}

// firstLine returns the first sentence of a comment, in one line.
func firstLine(comment string) string {
	comment = strings.Join(strings.Fields(comment), " ")
	if sentence, _, found := strings.Cut(comment, ". "); found {
		return sentence + "."
	}
	return comment
}
