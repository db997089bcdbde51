package programs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/formats"
)

// entry is a program without mistakes, on lines 1 to 4.
const entry = `- program: web
  images: [web]
  flags: ["--cert={cert}", "--key={key}"]
  reload: itself
`

func TestParseReadsEveryField(t *testing.T) {
	table, err := Parse([]byte(`
- program: web
  images: [web, acme/web]
  executables: [webd]
  flags: [--cert, "{cert}"]
  first: true
  env: [{name: WEB_KEY, value: "{key}"}, {name: WEB_TLS, value: true}]
  config: {web.yml: "ca: {ca}\n"}
  files: {server.pem: tls.crt}
  own: [--no-tls, WEB_OWN, "http://"]
  ports: [8443, 65535, 1]
  privateKey: true
  reload: signal
  reloadHow: SIGHUP
  versions: 1.2 to 1.4
  sources: ["https://example.com/web"]
  note: n
- program: other
  executables: [other]
  none: "Put {cert} into its keystore."
`))
	require.NoError(t, err)
	assert.Equal(t, []Program{
		{
			Name: "web", Images: []string{"web", "acme/web"}, Executables: []string{"webd"}, Flags: []string{"--cert", "{cert}"}, First: true,
			Env:    []Variable{{"WEB_KEY", "{key}"}, {"WEB_TLS", "true"}},
			Config: map[string]string{"web.yml": "ca: {ca}\n"}, Files: map[string]string{"server.pem": "tls.crt"},
			Own: []string{"--no-tls", "WEB_OWN", "http://"}, Ports: []int32{8443, 65535, 1}, PrivateKey: true,
			Reload: ReloadSignal, ReloadHow: "SIGHUP", Versions: "1.2 to 1.4", Sources: []string{"https://example.com/web"}, Note: "n",
		},
		{Name: "other", Executables: []string{"other"}, None: "Put {cert} into its keystore."},
	}, table.All())
}

func TestParseOfNothing(t *testing.T) {
	for _, nothing := range []string{"", "\n", "# a comment\n", "[]"} {
		table, err := Parse([]byte(nothing))
		require.NoError(t, err, "%q", nothing)
		assert.Empty(t, table.All())
	}
}

// TestParseRefuses: each mistake is reported in one line, with its place and what is allowed.
func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		yaml string
		want []string // lines
	}{
		"no YAML":           {"- a: {\n", []string{"not YAML: yaml: line 1: did not find expected node content"}},
		"two documents":     {entry + "---\n" + entry, []string{"more than one YAML document: must be one list of programs"}},
		"an empty document": {entry + "---\n", []string{"more than one YAML document: must be one list of programs"}},
		"no list":           {"# programs\nprogram: web\n", []string{"line 2: must be a list of programs"}},
		"a text":            {"web", []string{"line 1: must be a list of programs"}},
		"null":              {"---\n", []string{"line 2: must be a list of programs"}},

		"a program that is a text": {entry + "- nginx\n", []string{"line 5: `nginx` must be a program, with fields such as program and images"}},
		"a program that is a list": {entry + "- [nginx]\n", []string{"line 5: must be a program, with fields such as program and images"}},
		"a program that is null":   {"-\n" + entry, []string{"line 1: must have a value"}},
		"a flag that is null":      {entry + "  own: [--a, ~]\n", []string{"line 5: must have a value"}},
		"fields that are null":     {entry + "  note:\n  own:\n", []string{"line 5: must have a value", "line 6: must have a value"}},
		"a field twice":            {entry + "  images: [b]\n", []string{`line 5: mapping key "images" already defined at line 2`}},

		"an unknown field":               {entry + "  image: web\n", []string{"line 5: field image is not a field of a program"}},
		"an unknown field of a variable": {entry + "  env: [{key: A}]\n", []string{"line 5: field key is not a field of a variable: must be name or value"}},
		"wrong types": {
			`- program: [a]
  images: web
  executables: {a: b}
  flags: --cert
  first: maybe
  env: {A: b}
  config: [a]
  files: 3
  ports: 8443
  reload: [itself]
- program: b
  env: [A=b]
  ports: [https, 99999999999]
`, []string{
				"line 1: must be a text",
				"line 2: `web` must be a list of texts",
				"line 3: must be a list of texts",
				"line 4: `--cert` must be a list of texts",
				"line 5: `maybe` must be true or false",
				"line 6: must be a list of variables, each with name and value",
				"line 7: must be texts by file name",
				"line 8: `3` must be texts by file name",
				"line 9: `8443` must be a list of port numbers",
				"line 10: must be a text",
				"line 12: `A=b` must be a variable, with name and value",
				"line 13: `https` must be a port number",
				"line 13: `9999999...` must be a port number",
			},
		},

		"several mistakes": {
			`- program: Web
  images: [web]
  reload: never
  flags: ["--cert={cert}"]
- program: b
  images: [b]
  none: n
  ports: [0]
`, []string{
				`line 1: program "Web": program: "Web": must be a name of lower-case letters, digits, dots, dashes and underscores`,
				`line 3: program "Web": reload: "never": must be itself, signal, request or restart`,
				`line 7: program "b": none: must be alone: the program also has flags, env, config, files, ports or privateKey`,
				`line 8: program "b": ports: 0: must be from 1 to 65535`,
			},
		},
		"a mistake in a field that is not there": {"- program: a\n  none: n\n", []string{`line 1: program "a": images: has neither images nor executables, so no container would match`}},

		"the name twice":       {entry + "- program: web\n  images: [b]\n  none: n\n", []string{`line 5: program "web": program: "web" is also in program "web"`}},
		"the image twice":      {entry + "- program: b\n  none: n\n  images: [a, web]\n", []string{`line 7: program "b": images: "web" is also in program "web"`}},
		"the executable twice": {entry + "  executables: [w]\n- program: b\n  none: n\n  executables: [w]\n", []string{`line 8: program "b": executables: "w" is also in program "web"`}},
		"everything three times": {
			"- {program: a, none: n, images: [i], executables: [e]}\n- {program: b, none: n, images: [i], executables: [e]}\n- {program: c, none: n, images: [i], executables: [e]}\n",
			[]string{
				`line 2: program "b": images: "i" is also in program "a"`,
				`line 3: program "c": images: "i" is also in program "a"`,
				`line 2: program "b": executables: "e" is also in program "a"`,
				`line 3: program "c": executables: "e" is also in program "a"`,
			},
		},

		"configuration files that differ": {
			withFile("a", "config: {tls.yml: x}") + withFile("b", "config: {tls.yml: y}"),
			[]string{`program "b": config: "tls.yml" differs from that of program "a": must be the same, or have another name`},
		},
		"files that differ": {
			withFile("a", "files: {x.pem: tls.crt}") + withFile("b", "files: {x.pem: tls.key}"),
			[]string{`program "b": files: "x.pem" differs from that of program "a": must be the same, or have another name`},
		},
		"a file and a configuration file": {
			withFile("a", "files: {x.pem: tls.crt}") + withFile("b", "config: {x.pem: tls.crt}"),
			[]string{`program "b": config: "x.pem" differs from that of program "a": must be the same, or have another name`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := Parse([]byte(tc.yaml))
			require.Error(t, err)
			assert.Equal(t, tc.want, strings.Split(err.Error(), "\n"))
			assert.Empty(t, table.All(), "all of it is refused")
		})
	}
}

// withFile returns a program with a further line.
func withFile(name, line string) string {
	return fmt.Sprintf("- program: %s\n  images: [%s]\n  flags: [\"--dir={dir}\"]\n  reload: itself\n  %s\n", name, name, line)
}

func TestParseAcceptsWhatIsShared(t *testing.T) {
	for name, list := range map[string]string{
		"a configuration file of two programs": withFile("a", "config: {tls.yml: x}") + withFile("b", "config: {tls.yml: x}"),
		"a file of two programs":               withFile("a", "files: {x.pem: tls.crt}") + withFile("b", "files: {x.pem: tls.crt}"),
		"a name that is also an executable":    "- {program: a, none: n, images: [a], executables: [a]}\n- {program: b, none: n, images: [x/a]}\n",
		"an image twice in one program":        "- {program: a, none: n, images: [a, a]}\n",
		"an anchor":                            "- {program: a, none: &n Ask., images: [a]}\n- {program: b, none: *n, images: [b]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(list))
			assert.NoError(t, err)
		})
	}
}

func TestParseBoundsThePrograms(t *testing.T) {
	var list strings.Builder
	for i := range maxPrograms {
		fmt.Fprintf(&list, "- {program: p%d, images: [i%d], none: n}\n", i, i)
	}
	table, err := Parse([]byte(list.String()))
	require.NoError(t, err)
	require.Len(t, table.All(), maxPrograms)
	_, err = Parse([]byte(list.String() + "- {program: one-more, images: [x], none: n}\n"))
	require.EqualError(t, err, "1001 programs: must be at most 1000")
}

// TestMistakes: every mistake in a single program, and values that are just valid.
func TestMistakes(t *testing.T) {
	good := func(change func(p *Program)) *Program {
		p := &Program{Name: "web", Images: []string{"web"}, Flags: []string{"--cert={cert}"}, Reload: ReloadItself}
		change(p)
		return p
	}
	none := func(change func(p *Program)) *Program {
		p := &Program{Name: "web", Images: []string{"web"}, None: "n"}
		change(p)
		return p
	}
	const alone = "none: must be alone: the program also has flags, env, config, files, ports or privateKey"
	fileNames := "must be the name of a file, and not " + strings.Join(append([]string{"tls.crt", "tls.key", "ca.crt"}, formats.Asked().Files()...), ", ")
	placeholderNames := "must be one of " + strings.Join(placeholders, " ")
	servingNames := strings.Join(serving[:len(serving)-1], ", ") + " or {dir}"
	require.Subset(t, placeholders, []string{"{cert}", "{key}", "{ca}", "{combined}", "{dir}"})
	require.Subset(t, serving, []string{"{cert}", "{combined}", "{dir}"})
	require.NotContains(t, serving, "{key}")
	const there = "must be the name of a file that is not there already"
	const image = "must be the last part of a repository's name, such as prometheus, or the last two, without registry and tag"
	for name, tc := range map[string]struct {
		p    *Program
		want []string
	}{
		"good":             {good(func(*Program) {}), nil},
		"none":             {none(func(*Program) {}), nil},
		"none with reload": {none(func(p *Program) { p.Reload, p.Own = ReloadItself, []string{"--cert"} }), nil},
		"names":            {good(func(p *Program) { p.Name = "a_b-c.d9" }), nil},
		"no name":          {good(func(p *Program) { p.Name = "" }), []string{`program: "": must be a name of lower-case letters, digits, dots, dashes and underscores`}},
		"name with space":  {good(func(p *Program) { p.Name = "a b" }), []string{`program: "a b": must be a name of lower-case letters, digits, dots, dashes and underscores`}},

		"images":       {good(func(p *Program) { p.Images = []string{"a", "a-b", "a/b", "a.b_c/d", "a__b"} }), nil},
		"wrong images": {good(func(p *Program) { p.Images = []string{"a:v1", "x/a/b", "A", ""} }), []string{`images: "a:v1": ` + image, `images: "x/a/b": ` + image, `images: "A": ` + image, `images: "": ` + image}},
		"executables":  {good(func(p *Program) { p.Images, p.Executables = nil, []string{"a", "kc.sh", "A_b+c-d"} }), nil},
		"wrong executables": {good(func(p *Program) { p.Executables = []string{"bin/a", "-a", "", "sh", "server"} }), []string{
			`executables: "bin/a": must be the name of an executable, without its directory`,
			`executables: "-a": must be the name of an executable, without its directory`,
			`executables: "": must be the name of an executable, without its directory`,
			`executables: "sh": runs all kinds of programs`, `executables: "server": runs all kinds of programs`,
		}},

		"nothing to do":          {good(func(p *Program) { p.Flags = nil }), []string{"none: has neither flags nor env: none must say what a person has to do"}},
		"none and flags":         {none(func(p *Program) { p.Flags, p.Reload = []string{"--c={cert}"}, ReloadItself }), []string{alone}},
		"none and env":           {none(func(p *Program) { p.Env, p.Reload = []Variable{{"C", "{cert}"}}, ReloadItself }), []string{alone}},
		"none and config":        {none(func(p *Program) { p.Config = map[string]string{"a": "b"} }), []string{alone}},
		"none and files":         {none(func(p *Program) { p.Files = map[string]string{"a": "tls.crt"} }), []string{alone}},
		"none and ports":         {none(func(p *Program) { p.Ports = []int32{1} }), []string{alone}},
		"none and private key":   {none(func(p *Program) { p.PrivateKey = true }), []string{alone}},
		"no certificate":         {good(func(p *Program) { p.Flags = []string{"--tls", "--key={key}"} }), []string{"flags: neither flags, env nor config use " + servingNames}},
		"the certificate in env": {good(func(p *Program) { p.Flags, p.Env = nil, []Variable{{"C", "{combined}"}} }), nil},
		"the certificate in a file": {good(func(p *Program) {
			p.Flags, p.Config = []string{"--config=tls.yml"}, map[string]string{"tls.yml": "cert: {cert}"}
		}), nil},
		"unknown placeholders": {good(func(p *Program) {
			p.Flags, p.Env, p.Config = []string{"--cert={cert}", "--x={chain}"}, []Variable{{"A", "{a}"}}, map[string]string{"x": "{b} {} {B} ${c}"}
		}), []string{
			"flags: {chain}: " + placeholderNames, "flags: {a}: " + placeholderNames,
			"flags: {b}: " + placeholderNames, "flags: {c}: " + placeholderNames,
		}},

		"wrong flags": {good(func(p *Program) { p.Flags = []string{"--cert={cert}", "", "a\tb", "$(A)", "a b"} }), []string{
			`flags: "": must not be empty or contain control characters`, `flags: "a\tb": must not be empty or contain control characters`,
			`flags: "$(A)": must not contain $(, which the kubelet replaces`,
		}},
		"first flag": {good(func(p *Program) { p.Flags = []string{"serve", "{cert}"} }), []string{`flags: "serve": the first must start with a dash`}},
		"wrong env": {good(func(p *Program) {
			p.Env = []Variable{{"", "a"}, {"A=B", "a"}, {"TLS_CERT_FILE", "a"}, {"TLS_PRIVATE_KEY_FILE", "a"}, {"TLS_CA_FILE", "a"}, {"A", "1"}, {"B", "$(A)"}, {"A", "2"}}
		}), []string{
			`env: "": not the name of a variable`, `env: "A=B": not the name of a variable`, `env: "TLS_CERT_FILE": is set in every container`,
			`env: "TLS_PRIVATE_KEY_FILE": is set in every container`, `env: "TLS_CA_FILE": is set in every container`,
			`env: "B": must not contain $(, which the kubelet replaces`, `env: "A": occurs twice`,
		}},
		"own":       {good(func(p *Program) { p.Own = []string{"-a", "--b.c", "A_B", "a.b-c", "https://"} }), nil},
		"wrong own": {good(func(p *Program) { p.Own = []string{"a b"} }), []string{`own: "a b": must be a flag with its dashes, the name of a variable, or the beginning of an argument such as http://`}},
		"ports":     {good(func(p *Program) { p.Ports = []int32{1, 65535, -1, 65536} }), []string{"ports: -1: must be from 1 to 65535", "ports: 65536: must be from 1 to 65535"}},

		"files": {good(func(p *Program) { p.Files = map[string]string{"a": "tls.crt", "B.pem": "tls.key", "c-d_e": "ca.crt"} }), nil},
		"wrong files": {good(func(p *Program) {
			p.Files = map[string]string{"tls.crt": "tls.crt", "tls-combined.pem": "tls.crt", "a/b": "tls.crt", "..": "tls.crt", "x": "tls-combined.pem"}
		}), []string{
			`files: "..": ` + fileNames, `files: "a/b": ` + fileNames, `files: "tls-combined.pem": ` + fileNames, `files: "tls.crt": ` + fileNames,
			`files: "x": "tls-combined.pem": must be one of tls.crt, tls.key, ca.crt`,
		}},
		"config": {good(func(p *Program) {
			p.Config = map[string]string{strings.Repeat("a", 63): strings.Repeat("x", maxConfig), "b": ""}
		}), nil},
		"wrong config": {good(func(p *Program) {
			p.Files = map[string]string{"b.pem": "tls.crt"}
			p.Config = map[string]string{"tls.key": "", "tls-combined.pem": "", "b.pem": "", "-": "", strings.Repeat("a", 64): "", "c": strings.Repeat("x", maxConfig+1)}
		}), []string{
			`config: "-": ` + there, `config: "` + strings.Repeat("a", 64) + `": ` + there, `config: "b.pem": ` + there,
			`config: "c": is longer than 4096 bytes`, `config: "tls-combined.pem": ` + there, `config: "tls.key": ` + there,
		}},

		"no reload":      {good(func(p *Program) { p.Reload = "" }), []string{`reload: "": must be itself, signal, request or restart`}},
		"wrong reload":   {none(func(p *Program) { p.Reload = "never" }), []string{`reload: "never": must be itself, signal, request or restart`}},
		"which signal":   {good(func(p *Program) { p.Reload = ReloadSignal }), []string{"reloadHow: must say which signal or request"}},
		"which request":  {good(func(p *Program) { p.Reload = ReloadRequest }), []string{"reloadHow: must say which signal or request"}},
		"the signal":     {good(func(p *Program) { p.Reload, p.ReloadHow = ReloadSignal, "SIGHUP" }), nil},
		"restart":        {good(func(p *Program) { p.Reload = ReloadRestart }), nil},
		"itself and how": {good(func(p *Program) { p.ReloadHow = "within a minute" }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // the order is always the same
				var got []string
				for _, m := range tc.p.mistakes() {
					got = append(got, m.field+": "+m.detail)
				}
				require.Equal(t, tc.want, got)
			}
		})
	}
}
