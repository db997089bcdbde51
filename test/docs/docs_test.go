// Package docs checks that the documentation matches the repository.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/test/docs/commands"
)

const root = "../.."

// files returns the paths, relative to the root, that end in suffix.
func files(t *testing.T, suffix string) []string {
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || path == "website") { // its Markdown is copied
			return fs.SkipDir
		}
		if strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

func read(t *testing.T, path string) string {
	data, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(data)
}

// Each block of shell commands has a mark: which test runs it, or why none does.
func TestCommandsAreRunOrSayWhyNot(t *testing.T) {
	exist := tests(t)
	for _, path := range files(t, ".md") {
		blocks, err := commands.Blocks(read(t, path))
		assert.NoError(t, err, path)
		for i := range blocks {
			assert.True(t, blocks[i].By == "" || len(exist[blocks[i].By]) > 0, "%s:%d: test %s does not exist", path, blocks[i].Line, blocks[i].By)
		}
	}
}

// tests returns the directories that have a test of each name.
func tests(t *testing.T) map[string][]string {
	exist := map[string][]string{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	for _, path := range files(t, "_test.go") {
		for _, m := range declared.FindAllStringSubmatch(read(t, path), -1) {
			exist[m[1]] = append(exist[m[1]], filepath.Dir(path))
		}
	}
	return exist
}

// A test is named with its package, as in `pkg/ca TestDecide`, if others have the same name. TestMain is of no package.
func TestNamedTestsExist(t *testing.T) {
	exist := tests(t)
	named := regexp.MustCompile("`(?:([\\w/-]+) )?((?:Test|Fuzz|Benchmark)[A-Z]\\w+)[`/]")
	for _, path := range files(t, ".md") {
		for _, m := range named.FindAllStringSubmatch(read(t, path), -1) {
			in := exist[m[2]]
			assert.True(t, m[2] == "TestMain" || len(in) == 1 && m[1] == "" || slices.Contains(in, m[1]), "%s names test %q, which is one of packages %q", path, m[0], in)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	headings := map[string]map[string]bool{}
	for _, path := range files(t, ".md") {
		headings[path] = headingsOf(read(t, path))
	}
	for path := range headings {
		for _, m := range link.FindAllStringSubmatch(withoutCode(read(t, path)), -1) {
			to, anchor := path, m[2]
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
			}
			_, err := os.Stat(filepath.Join(root, to))
			assert.NoError(t, err, "%s links to %s", path, m[1])
			if anchor != "" && headings[to] != nil {
				assert.True(t, headings[to][anchor], "%s links to %s#%s: no such heading", path, m[1], anchor)
			}
		}
	}
}

func withoutCode(page string) string {
	return regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page, "")
}

// headingsOf returns the anchors that GitHub gives a page's headings.
func headingsOf(page string) map[string]bool {
	found := map[string]bool{}
	link, other := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`), regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(page), -1) {
		text := strings.ToLower(link.ReplaceAllString(strings.TrimSpace(m[1]), "$1"))
		found[strings.ReplaceAll(other.ReplaceAllString(text, ""), " ", "-")] = true
	}
	return found
}

// A page begins with the question that it answers, in bold.
func TestEveryPageBeginsWithItsQuestion(t *testing.T) {
	begins := regexp.MustCompile(`(?s)\A# [^\n]+\n+(?:<!--.*?-->\n+)?\*\*[^*]+\?\*\*`)
	asked := 0
	for _, path := range files(t, ".md") {
		dir := filepath.Dir(path)
		if path == "README.md" || path == "CHANGELOG.md" || dir != "." && dir != "docs" && dir != "deploy" {
			continue
		}
		asked++
		assert.Regexp(t, begins, read(t, path), "%s does not begin with a bold question after its title", path)
	}
	assert.Greater(t, asked, 40, "the test does not find the pages")
}

func TestEveryPageIsInTheIndex(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, path := range files(t, ".md") {
		if name := filepath.Base(path); filepath.Dir(path) == "docs" && name != "README.md" {
			assert.Contains(t, index, "("+name+")", "docs/README.md does not list %s", path)
		}
	}
}

// docs/gitops.md shows the files that the tests of Argo CD and Flux apply.
func TestGitOpsPageQuotesItsFiles(t *testing.T) {
	page, quoted := read(t, "docs/gitops.md"), 0
	for _, path := range files(t, ".yaml") {
		if filepath.Dir(path) == filepath.Join("deploy", "gitops") {
			quoted++
			assert.Contains(t, page, "```yaml\n"+read(t, path)+"```\n", "%s is not quoted verbatim", path)
		}
	}
	assert.Equal(t, 4, quoted)
}

// Both tools treat the same reasons of condition Ready as transient, and the signer uses these reasons.
func TestHealthChecksAgreeOnWhatPasses(t *testing.T) {
	const argo, flux = "deploy/gitops/argocd-cm.yaml", "deploy/gitops/flux-health-checks.yaml"
	one := regexp.MustCompile(`local passes = \{(.*)\}`).FindStringSubmatch(read(t, argo))
	other := regexp.MustCompile(`c\.reason in \[(.*)\]`).FindStringSubmatch(read(t, flux))
	require.NotNil(t, one, argo)
	require.NotNil(t, other, flux)
	reasons := regexp.MustCompile(`[A-Z]\w+`)
	passes := reasons.FindAllString(other[1], -1)
	require.NotEmpty(t, passes)
	assert.Equal(t, passes, reasons.FindAllString(one[1], -1))
	_, ready, _ := strings.Cut(read(t, "docs/reference-generated.md"), "### Reasons of condition Ready")
	ready, _, _ = strings.Cut(ready, "\n### ")
	for _, reason := range passes {
		assert.Contains(t, ready, "| `"+reason+"` | False", "the signer does not use reason %s", reason)
	}
}

// The script that requests a certificate is the one that make e2e runs.
func TestTheScriptIsTheOneThatRuns(t *testing.T) {
	for doc := range strings.SplitSeq(read(t, "test/e2e/manifests/requests.yaml"), "\n---\n") {
		var object struct {
			Data map[string]string `json:"data"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &object))
		if script, ok := object.Data["request-certificate"]; ok {
			assert.Contains(t, read(t, "docs/pod-keys.md"), "```sh\n"+script+"```\n")
			return
		}
	}
	t.Error("the manifest does not contain the script")
}

func TestNamedFlagsExist(t *testing.T) {
	var sources strings.Builder
	for _, path := range files(t, ".go") {
		if strings.HasPrefix(path, "cmd/") {
			sources.WriteString(read(t, path))
		}
	}
	named := regexp.MustCompile("`--([a-z0-9-]+)")
	others := map[string]bool{"tls-cert-file": true, "tls-private-key-file": true, "reload": true, "for": true, "kubeconfig": true, "context": true, "as": true, "request-timeout": true} // of servers, and of kubectl
	for _, path := range []string{"README.md", "docs/architecture.md", "docs/how-rotation-reaches-pods.md", "docs/injection.md", "docs/operations.md", "docs/reference.md", "docs/tls-stacks.md", "docs/tutorial.md"} {
		for _, m := range named.FindAllStringSubmatch(read(t, path), -1) {
			assert.True(t, others[m[1]] || strings.Contains(sources.String(), `"`+m[1]+`"`), "%s names flag --%s, which does not exist", path, m[1])
		}
	}
}

// All flags are in docs/reference.md, or in the page on remote CAs to which it links. Those of the plugin are in
// docs/cli.md, which is what it prints.
func TestTheReferenceHasEveryFlag(t *testing.T) {
	pages := read(t, "docs/reference.md") + read(t, "docs/remote-ca.md")
	registered := regexp.MustCompile(`\bfs\.(?:String|Bool|Int|Float|Duration)\w*\([^"]*"([a-z0-9-]+)"`)
	found := 0
	for _, path := range files(t, ".go") {
		if !strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "cmd/kubectl-servingcert/") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range registered.FindAllStringSubmatch(read(t, path), -1) {
			found++
			assert.Contains(t, pages, "`--"+m[1]+"`", "%s has flag --%s", path, m[1])
		}
	}
	assert.Greater(t, found, 50, "the test does not find the flags")
}

// Each row of the threat model's tables names a test.
func TestTheThreatModelNamesATestForEachLine(t *testing.T) {
	lines := 0
	for line := range strings.Lines(read(t, "docs/threat-model.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| | test |") {
			continue
		}
		lines++
		assert.Regexp(t, "\\| `(?:[\\w/-]+ )?Test\\w+`[^|]* \\|\n$", line)
	}
	assert.Greater(t, lines, 25, "the test does not find the tables")
}

// A command that is printed with a value comes from api.Command, which quotes it: no format or sum makes one.
func TestCommandsWithValuesAreQuoted(t *testing.T) {
	made := regexp.MustCompile(`kubectl (%[sqv]|(-|annotate|apply|create|delete|describe|get|label|logs|patch|rollout|scale|servingcert) ?[^\n"():;` + "`" + `]*(%[sqv]|[ =/]["` + "`" + `]\s*\+))`)
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") && (strings.HasPrefix(path, "pkg/") || strings.HasPrefix(path, "cmd/")) {
			assert.Empty(t, made.FindString(read(t, path)), path)
		}
	}
	for _, code := range []string{`"restart it: kubectl rollout restart %s -n %s"`, `"kubectl -n " + namespace`, `"kubectl rollout restart deployment/" + name`, `"kubectl %s"`} {
		assert.Regexp(t, made, code)
	}
}
