package app

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/pki"
)

// webhookFlags are flags with the values of the webhook's own flags.
type webhookFlags struct {
	openShift   bool
	defaultMode string
	unknown     string
	trustSource string
	publicRoots bool
	trustDomain string
	proxyImage  string
	resources   string // of the proxy
	programs    string // a file with a table of programs
}

// add adds the flags that affect containers, except --programs, whose default differs between verbs.
func (f *webhookFlags) add(fs *pflag.FlagSet) {
	f.trustSource = string(api.TrustFromConfigMap)
	fs.BoolVar(&f.openShift, "openshift-compat", false, "also read OpenShift's annotations, like the webhook with --openshift-compat")
	fs.StringVar(&f.defaultMode, "default-mode", string(api.ModeArgs), "the webhook's --default-mode: args, env or mount")
	fs.StringVar(&f.unknown, "unknown-programs", string(api.UnknownProgramsFiles), "the webhook's --unknown-programs: files or flags")
}

// addPods adds the flags that affect the rest of a pod.
func (f *webhookFlags) addPods(fs *pflag.FlagSet) {
	fs.StringVar(&f.trustSource, "trust-source", string(api.TrustFromConfigMap), "the webhook's --trust-source: configmap or clustertrustbundle")
	fs.BoolVar(&f.publicRoots, "public-roots", false, "the webhook's --public-roots")
	fs.StringVar(&f.trustDomain, "trust-domain", "", "the webhook's --trust-domain")
	fs.StringVar(&f.proxyImage, "proxy-image", "ghcr.io/servingcert/proxy", "the webhook's --proxy-image")
	fs.StringVar(&f.resources, "proxy-resources", api.DefaultProxyResources, "the webhook's --proxy-resources")
}

func (f *webhookFlags) validate() error {
	if detail := api.CheckMode(api.Mode(f.defaultMode)); detail != "" {
		return usagef("--default-mode %q: %s", f.defaultMode, detail)
	}
	if detail := api.CheckUnknownPrograms(api.UnknownPrograms(f.unknown)); detail != "" {
		return usagef("--unknown-programs %q: %s", f.unknown, detail)
	}
	if detail := api.CheckTrustSource(api.TrustSource(f.trustSource)); detail != "" {
		return usagef("--trust-source %q: %s", f.trustSource, detail)
	}
	if err := pki.CheckTrustDomain(f.trustDomain); f.trustDomain != "" && err != nil {
		return usagef("--trust-domain: %w", err)
	}
	if detail := api.CheckImage(f.proxyImage); f.proxyImage != "" && detail != "" {
		return usagef("--proxy-image %q: %s", f.proxyImage, detail)
	}
	if _, detail := api.ParseProxyResources(f.resources); f.resources != "" && detail != "" {
		return usagef("--proxy-resources %q: %s", f.resources, detail)
	}
	return nil
}

// config returns the webhook's configuration, with the table of --programs; without that flag, Programs
// is nil.
func (f *webhookFlags) config() (choose.Config, error) {
	resources, _ := api.ParseProxyResources(f.resources) // validated before
	config := choose.Config{
		DefaultMode: api.Mode(f.defaultMode), UnknownPrograms: api.UnknownPrograms(f.unknown),
		TrustBundle: api.TrustSource(f.trustSource) == api.TrustFromClusterTrustBundle, PublicRoots: f.publicRoots, TrustDomain: f.trustDomain, ProxyImage: f.proxyImage,
		ProxyResources: resources,
	}
	if f.programs == "" {
		return config, nil
	}
	table, err := readPrograms(f.programs)
	config.Programs = &table
	return config, err
}

// maxPrograms is the maximum size of a table of programs, in bytes: the limit of a ConfigMap.
const maxPrograms = 1 << 20

// readPrograms returns the built-in table with the entries of a file.
func readPrograms(name string) (programs.Table, error) {
	file, err := os.Open(name)
	if err != nil {
		return programs.Table{}, fmt.Errorf("--programs: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading
	data, err := io.ReadAll(io.LimitReader(file, maxPrograms+1))
	if err != nil {
		return programs.Table{}, fmt.Errorf("--programs: %w", err)
	}
	if len(data) > maxPrograms {
		return programs.Table{}, fmt.Errorf("--programs: %s: larger than %d MiB, the limit of a ConfigMap", name, maxPrograms>>20)
	}
	table, err := programs.WithBuiltin(data)
	if err != nil {
		return programs.Table{}, fmt.Errorf("--programs: %s: %w", name, err)
	}
	return table, nil
}
