package programs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/formats"
)

func parsed(t *testing.T, list string) Table {
	t.Helper()
	table, err := Parse([]byte(list))
	require.NoError(t, err)
	return table
}

// nameOf returns the name of a program that was looked up, or "" if there is none.
func nameOf(p *Program, ok bool) string {
	if !ok {
		return ""
	}
	return p.Name
}

func TestUntagged(t *testing.T) {
	for image, want := range map[string]string{
		"":                               "",
		"nginx":                          "nginx",
		"nginx:1.27":                     "nginx",
		"nginx@sha256:0a":                "nginx",
		"nginx:1.27@sha256:0a":           "nginx",
		"localhost:5000/nginx":           "localhost:5000/nginx",
		"localhost:5000/nginx:1":         "localhost:5000/nginx",
		"localhost:5000/a/b@sha256:0a":   "localhost:5000/a/b",
		"localhost:5000/a/b:1@sha256:0a": "localhost:5000/a/b",
		"quay.io/prometheus/prometheus":  "quay.io/prometheus/prometheus",
	} {
		assert.Equal(t, want, Untagged(image), image)
	}
}

func TestByImage(t *testing.T) {
	table := parsed(t, `
- {program: one, images: [nginx], none: n}
- {program: two, images: [acme/nginx, acme/web], none: n}
- {program: three, images: [web], none: n}
`)
	for image, want := range map[string]string{
		"nginx":                               "one",
		"library/nginx:1.27":                  "one",
		"registry.example.com:5000/nginx":     "one",
		"docker.io/library/nginx@sha256:0a":   "one",
		"acme/nginx":                          "two",
		"registry:5000/mirror/acme/nginx:1@a": "two",
		"acme/nginx/web":                      "three",
		"acme/web":                            "two",
		"web:5000":                            "three",
		"":                                    "",
		"my-nginx":                            "",
		"nginx-unprivileged":                  "",
		"nginx/":                              "",
		"acme/other":                          "",
	} {
		assert.Equal(t, want, nameOf(table.ByImage(image)), image)
	}
	assert.Empty(t, nameOf(Table{}.ByImage("nginx")), "the zero Table has no programs")
}

func TestByExecutable(t *testing.T) {
	table := parsed(t, "- {program: web, executables: [webd], none: n}\n")
	for executable, want := range map[string]string{
		"webd": "web", "/usr/bin/webd": "web", "./webd": "web", "webd.sh": "", "/webd/run": "", "": "", "WEBD": "",
	} {
		assert.Equal(t, want, nameOf(table.ByExecutable(executable)), executable)
	}
	assert.Empty(t, nameOf(Table{}.ByExecutable("webd")))
}

func TestWith(t *testing.T) {
	table := parsed(t, `
- {program: a, images: [a, both], executables: [ad], none: of a}
- {program: b, images: [b], executables: [bd], none: of b}
`)
	both, err := table.With(parsed(t, `
- {program: b, images: [b2], flags: ["--own-cert={cert}"], reload: itself}
- {program: c, images: [both], executables: [ad, cd], none: of c}
`))
	require.NoError(t, err)
	var names []string
	for _, p := range both.All() {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"a", "b", "c"}, names)
	for image, want := range map[string]string{"a": "a", "b": "", "b2": "b", "both": "c"} {
		assert.Equal(t, want, nameOf(both.ByImage(image)), "image %s", image)
	}
	for executable, want := range map[string]string{"ad": "c", "bd": "", "cd": "c"} {
		assert.Equal(t, want, nameOf(both.ByExecutable(executable)), "executable %s", executable)
	}
	b, _ := both.ByImage("b2")
	assert.True(t, b.Takes(), "the entry is replaced whole")
	assert.True(t, both.TakesCertificate("own-cert"))

	assert.Equal(t, "b", nameOf(table.ByImage("b")), "the table itself stays as it was")
	assert.Len(t, table.All(), 2)
	same, err := table.With(Table{})
	require.NoError(t, err)
	assert.Equal(t, table, same)
	same, err = Table{}.With(table)
	require.NoError(t, err)
	assert.Equal(t, table, same)
}

func TestWithRefusesFilesThatDiffer(t *testing.T) {
	table := parsed(t, withFile("a", "config: {tls.yml: x}")+withFile("b", "files: {x.pem: tls.crt}"))
	for name, tc := range map[string]struct{ more, want string }{
		"another configuration file": {withFile("c", "config: {tls.yml: y}"), `program "c": config: "tls.yml" differs from that of program "a": must be the same, or have another name`},
		"another file":               {withFile("c", "files: {x.pem: ca.crt}"), `program "c": files: "x.pem" differs from that of program "b": must be the same, or have another name`},
		"a file of a configuration":  {withFile("c", "files: {tls.yml: tls.crt}"), `program "c": files: "tls.yml" differs from that of program "a": must be the same, or have another name`},
		"the same":                   {withFile("c", "config: {tls.yml: x}"), ""},
		"that of a replaced program": {withFile("a", "config: {tls.yml: y}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := table.With(parsed(t, tc.more))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
			assert.Empty(t, got.All())
		})
	}
}

func TestUses(t *testing.T) {
	p := Program{Flags: []string{"--a={cert}", "--b"}, Env: []Variable{{"A", "{key}"}, {"{dir}", "x"}}, Config: map[string]string{"a": "x", "b": "{ca}", "{combined}": ""}, None: "{dir}"}
	for placeholder, want := range map[string]bool{Cert: true, Key: true, CA: true, Dir: false, Placeholder(&formats.Combined): false} {
		assert.Equal(t, want, p.Uses(placeholder), placeholder)
	}
}

func TestIsPrefix(t *testing.T) {
	assert.True(t, IsPrefix("http://"))
	assert.True(t, IsPrefix("unix:///run"))
	assert.False(t, IsPrefix("--http"))
	assert.False(t, IsPrefix("HTTP"))
}

// TestBuiltinEntries: built-in entries describe how the program loads a renewed certificate,
// and have a source.
func TestBuiltinEntries(t *testing.T) {
	for _, p := range Builtin().All() {
		t.Run(p.Name, func(t *testing.T) {
			assert.NotEmpty(t, p.Versions)
			require.NotEmpty(t, p.Sources)
			for _, source := range p.Sources {
				assert.True(t, strings.HasPrefix(source, "https://"), source)
			}
			if p.None == "" {
				assert.NotEmpty(t, p.Reload)
			}
			for _, used := range placeholder.FindAllString(p.None, -1) {
				assert.Contains(t, placeholders, used)
			}
			for text := range p.texts() {
				assert.NotContains(t, text, "/etc/servingcert", "the directory is {dir}: it may be another")
			}
		})
	}
}

// TestBuiltinContradictions: an entry that has an image, an executable or the name of
// another, or a file of the same name with other contents, is refused, so no two entries of
// the table contradict each other.
func TestBuiltinContradictions(t *testing.T) {
	all := Builtin().All()
	first := func(has func(p Program) bool) Program {
		i := slices.IndexFunc(all, has)
		require.GreaterOrEqual(t, i, 0)
		return all[i]
	}
	image := first(func(p Program) bool { return len(p.Images) > 0 })
	executable := first(func(p Program) bool { return len(p.Executables) > 0 })
	config := first(func(p Program) bool { return len(p.Config) > 0 })
	configName := slices.Sorted(maps.Keys(config.Config))[0]
	last := all[len(all)-1]
	for added, says := range map[string]string{
		"- {program: another, images: [" + image.Images[0] + "], none: n}\n":                `program "another": images: "` + image.Images[0] + `" is also in program "` + image.Name + `"`,
		"- {program: another, executables: [" + executable.Executables[0] + "], none: n}\n": `program "another": executables: "` + executable.Executables[0] + `" is also in program "` + executable.Name + `"`,
		"- {program: " + last.Name + ", images: [another], none: n}\n":                      `program "` + last.Name + `": program: "` + last.Name + `" is also in program "` + last.Name + `"`,
		withFile("another", "config: {"+configName+": other}"):                              `program "another": config: "` + configName + `" differs from that of program "` + config.Name + `"`,
	} {
		_, err := Parse([]byte(string(builtin) + "\n" + added))
		assert.ErrorContains(t, err, says)
	}
}

func TestBuiltin(t *testing.T) {
	table, err := Parse(builtin)
	require.NoError(t, err)
	require.Greater(t, len(table.All()), 120)
}
