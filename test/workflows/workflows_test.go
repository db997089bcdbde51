// Package workflows holds the workflow files against what they call and what they may.
package workflows

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	root = "../.."
)

// workflow is the part of GitHub's format that the files use. Other keys are an error.
type workflow struct {
	Name        string
	On          map[string]any
	Permissions map[string]string
	Concurrency map[string]string
	Jobs        map[string]job
}

type job struct {
	RunsOn      string `yaml:"runs-on"`
	Needs       string
	Strategy    strategy
	Timeout     int `yaml:"timeout-minutes"`
	Permissions map[string]string
	Container   map[string]string
	Env         map[string]string
	Steps       []step
}

type strategy struct {
	FailFast *bool `yaml:"fail-fast"`
	Matrix   map[string][]string
}

type step struct {
	Uses, Run string
	With, Env map[string]string
}

func parse(t *testing.T, path string) workflow {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	var w workflow
	require.NoError(t, decoder.Decode(&w), path)
	return w
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	require.NoError(t, err)
	all := map[string]workflow{}
	for _, path := range paths {
		all[filepath.Base(path)] = parse(t, path)
	}
	require.Len(t, all, 4)
	return all
}

var (
	makes    = regexp.MustCompile(`^make ([a-z0-9-]+)$`)
	script   = regexp.MustCompile(`^(\.ci/(?:run|install))(?: long)?$`)
	target   = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)
	byDigest = regexp.MustCompile(`^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$`)
	pinned   = regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
)

// targets are those of the Makefile.
func targets(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, match := range target.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		all[match[1]] = true
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(text)
}

// TestLongTargets: what .ci/run names and make ci-full runs are targets, each known by paths that there are.
func TestLongTargets(t *testing.T) {
	var paths strings.Builder
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, d.Name()) {
			return fs.SkipDir
		}
		paths.WriteString(path + "\n")
		return err
	}))
	targets, found := targets(t), map[string]bool{}
	for line := range strings.Lines(read(t, ".ci/long")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		require.GreaterOrEqual(t, len(fields), 2, line)
		require.True(t, targets[fields[1]], "the Makefile has no target %s", fields[1])
		require.False(t, found[fields[1]], "%s is listed twice", fields[1])
		found[fields[1]] = true
		require.Regexp(t, "(?m)"+fields[0], paths.String(), fields[1])
	}
	require.Greater(t, len(found), 15)
}

// TestFull runs .ci/full of a repository with these targets alone and stubs in the place of programs: it runs the targets
// that match, and fails if an argument matches none.
func TestFull(t *testing.T) {
	dir, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".ci"), 0o755))
	for path, text := range map[string]string{
		".ci/full": read(t, ".ci/full"), ".ci/steps": read(t, ".ci/steps"), "go.mod": read(t, "go.mod"), ".ci/install": stub, "make": stub,
		"go": "#!/bin/sh\necho /\n", ".ci/long": "# comment\n^a e2e\n^b tlsstacks REQUIRE=a,b\n^c chaos\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o755))
	}
	for _, tt := range []struct {
		args []string
		want string // what is run, "" if it fails
	}{
		{nil, "install long\nmake e2e\nmake tlsstacks REQUIRE=a,b\nmake chaos\n"},
		{[]string{"^make e2e$"}, "install long\nmake e2e\n"},
		{[]string{"chaos", "^make e2e$"}, "install long\nmake e2e\nmake chaos\n"},
		{[]string{"no-such"}, ""},
		{[]string{"e2e", "no-such"}, ""},
		{[]string{"("}, ""},
	} {
		require.NoError(t, os.RemoveAll(log))
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, ".ci/full"), tt.args...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LOG="+log)
		out, err := cmd.CombinedOutput()
		called, _ := os.ReadFile(log) // there is none if nothing ran
		require.Equal(t, tt.want, string(called), "%v: %s", tt.args, out)
		if tt.want == "" {
			require.Error(t, err, "%v", tt.args)
			require.Contains(t, string(out), "no target of .ci/long matches "+tt.args[len(tt.args)-1])
			continue
		}
		require.NoError(t, err, "%v: %s", tt.args, out)
		require.Contains(t, string(out), "all passed")
	}
}

// TestPrivileges: what runs all tests may mount a file system, without which some of them are skipped.
func TestPrivileges(t *testing.T) {
	var found []string
	for name, w := range workflows(t) {
		for id, j := range w.Jobs {
			for _, s := range j.Steps {
				if slices.Contains([]string{".ci/run", "make ci-full", "make test-long"}, s.Run) {
					require.Equal(t, "--privileged", j.Container["options"], "%s: %s", name, id)
					found = append(found, s.Run)
				}
			}
		}
	}
	require.ElementsMatch(t, []string{".ci/run", "make ci-full", "make test-long"}, found)
}

// TestTheCommandsOfTheReadme: CI runs what the README has people run.
func TestTheCommandsOfTheReadme(t *testing.T) {
	for _, command := range []string{"make demo", "make test"} {
		require.Regexp(t, `(?m)^`+command+`\b`, read(t, "README.md"))
		require.Contains(t, read(t, ".ci/run"), "\nstep "+command+"\n")
	}
}

// TestSteps: what a workflow does is a target of the Makefile or a script of .ci, which
// everybody can run, or an action that is pinned by its commit, in an image that is pinned by its digest.
func TestSteps(t *testing.T) {
	targets := targets(t)
	for name, w := range workflows(t) {
		require.NotEmpty(t, w.Name, name)
		require.NotEmpty(t, w.On, name)
		require.NotNil(t, w.Permissions, "%s: without permissions a token may do everything", name)
		for id, j := range w.Jobs {
			require.NotEmpty(t, j.RunsOn, "%s: %s", name, id)
			require.Positive(t, j.Timeout, "%s: %s", name, id)
			if j.Container != nil {
				require.Regexp(t, byDigest, j.Container["image"], "%s: %s", name, id)
			}
			for _, s := range j.Steps {
				switch {
				case s.Uses != "":
					require.Empty(t, s.Run, name)
					require.Regexp(t, pinned, s.Uses, name)
				case script.MatchString(s.Run):
					info, err := os.Stat(filepath.Join(root, script.FindStringSubmatch(s.Run)[1]))
					require.NoError(t, err)
					require.NotZero(t, info.Mode()&0o100, "it can be run")
				default:
					match := makes.FindStringSubmatch(s.Run)
					require.NotNil(t, match, "%s: %q is neither a target of the Makefile nor a script of .ci", name, s.Run)
					require.True(t, targets[match[1]], "%s: the Makefile has no target %s", name, match[1])
				}
			}
		}
	}
}

// TestPermissions: what runs for every change, and weekly, may read and nothing else. Who publishes
// may do just that, only for a tag, and runs no tests. Who publishes the website may write to the
// repository, and runs when a maintainer starts it.
func TestPermissions(t *testing.T) {
	all := workflows(t)
	for _, reads := range []workflow{all["ci.yaml"], all["weekly.yaml"]} {
		require.Equal(t, map[string]string{"contents": "read"}, reads.Permissions)
		for id, j := range reads.Jobs {
			require.Empty(t, j.Permissions, id)
		}
	}
	release := all["release.yaml"]
	require.Empty(t, release.Permissions)
	require.Equal(t, map[string]any{"push": map[string]any{"tags": []any{"v*"}}}, release.On)
	require.Equal(t, map[string]string{
		"contents": "write", "packages": "write", "id-token": "write", "attestations": "write",
	}, release.Jobs["release"].Permissions)
	for id, j := range release.Jobs {
		if id == "release" {
			continue
		}
		require.Equal(t, map[string]string{"contents": "read"}, j.Permissions, id)
	}
	for _, s := range release.Jobs["release"].Steps {
		require.NotContains(t, s.Run, "test")
	}
	website := all["website.yaml"]
	require.Empty(t, website.Permissions)
	require.Equal(t, []string{"workflow_dispatch"}, slices.Collect(maps.Keys(website.On)))
	require.Equal(t, map[string]string{"contents": "write"}, website.Jobs["publish"].Permissions)
}

// TestOrder: nothing is published before it was tested, pushed, signed and attested.
func TestOrder(t *testing.T) {
	jobs := workflows(t)["release.yaml"].Jobs
	require.Equal(t, "test", jobs["release"].Needs)
	require.Empty(t, jobs["test"].Needs)
	require.Equal(t, "make release-test", jobs["test"].Steps[len(jobs["test"].Steps)-1].Run)
	var order []string
	for _, s := range jobs["release"].Steps {
		action, _, _ := strings.Cut(s.Uses, "@")
		order = append(order, s.Run+action)
		if action == "actions/attest-build-provenance" {
			require.Contains(t, []string{"bin/release/checksums.txt", "bin/release/images.sha256"}, s.With["subject-checksums"])
		}
	}
	require.Equal(t, []string{
		"actions/checkout", "actions/setup-go", "make release",
		"docker/login-action", "make release-push",
		"sigstore/cosign-installer", "make release-sign",
		"actions/attest-build-provenance", "actions/attest-build-provenance",
		"make release-publish",
	}, order)
}

// stub stands for a program that talks to the world: it notes how it was called.
const stub = "#!/bin/sh\necho \"${0##*/} $*\" >>\"$LOG\"\n"

// TestSignAndPublish runs the targets with stubs in the place of cosign and gh: each
// image is signed by its digest, its own bill of materials attested, and the files go
// to the tag's release.
func TestSignAndPublish(t *testing.T) {
	bin, release, log := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "log")
	for _, program := range []string{"cosign", "gh"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte(stub), 0o755))
	}
	list := strings.Repeat("a", 64) + "  r.example.com:5000/deep/signer\n" + strings.Repeat("b", 64) + "  r.example.com:5000/deep/webhook\n"
	require.NoError(t, os.WriteFile(filepath.Join(release, "images.sha256"), []byte(list), 0o600))
	run := func(args ...string) string {
		require.NoError(t, os.RemoveAll(log))
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", root, "RELEASE=" + release}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOG="+log)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		called, err := os.ReadFile(log)
		require.NoError(t, err)
		return strings.ReplaceAll(string(called), release, "DIR")
	}
	signer, webhook := "r.example.com:5000/deep/signer@sha256:"+strings.Repeat("a", 64), "r.example.com:5000/deep/webhook@sha256:"+strings.Repeat("b", 64)
	require.Equal(t, "cosign sign-blob --yes --bundle DIR/checksums.txt.sigstore.json DIR/checksums.txt\n"+
		"cosign sign --yes "+signer+"\n"+
		"cosign attest --yes --type spdxjson --predicate DIR/signer.oci.spdx.json "+signer+"\n"+
		"cosign sign --yes "+webhook+"\n"+
		"cosign attest --yes --type spdxjson --predicate DIR/webhook.oci.spdx.json "+webhook+"\n", run("release-sign"))
	require.Equal(t, "gh release create v1.2.3 --verify-tag --title v1.2.3 --notes-file DIR/release-notes.md DIR/images.sha256\n",
		run("release-publish", "VERSION=v1.2.3"))
	require.Contains(t, run("release-publish", "VERSION=v1.2.3-rc.1"), " --prerelease ")
}
