package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// startTimeout bounds how long one component may take to answer its health
// check: ten times what it takes on two idle cores, as tests of several packages
// start their control planes at the same moment.
const startTimeout = 90 * time.Second

// portAttempts is how often a component is started anew on other ports. Ports
// are free when they are chosen, but another process may be quicker.
const portAttempts = 4

// ControlPlane is a running control plane. Its methods may be called from
// several goroutines.
type ControlPlane struct {
	opts     Options
	dir      string
	ownsDir  bool
	binaries map[string]string
	pki      *pki
	minor    int // the x of kube-apiserver's version 1.x

	serviceIP netip.Addr // the ClusterIP of Service default/kubernetes
	host      string     // host:port of kube-apiserver; stays the same across restarts
	etcdHost  string     // host:port at which kube-apiserver reaches etcd

	mu        sync.Mutex
	etcd      *component
	apiServer *component
	manager   *component

	stopAccounts context.CancelFunc // ends the loop that makes default ServiceAccounts
	accountsDone chan struct{}
}

// Start runs a control plane and returns when its API answers: RBAC's default
// roles are there, namespace "default" and its ServiceAccount too. ctx bounds the
// start only; Stop ends what was started. A failed Start leaves no process and no
// file, and its error ends with the last lines of the component that failed.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	needs := []string{Etcd, KubeAPIServer}
	if opts.ControllerManager {
		needs = append(needs, KubeControllerManager)
	}
	binaries, err := Binaries(ctx, opts.Log, needs...)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{
		opts:      opts,
		binaries:  binaries,
		serviceIP: netip.MustParsePrefix(opts.ServiceCIDR).Masked().Addr().Next(),
	}
	if cp.minor, err = minorOf(ctx, binaries[KubeAPIServer]); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	if err := cp.makeDir(); err != nil {
		return err
	}
	var err error
	if cp.pki, err = newPKI(cp.path("pki"), cp.serviceIP); err != nil {
		return err
	}
	if err := cp.startEtcd(ctx); err != nil {
		return err
	}
	if err := cp.startNewAPIServer(ctx); err != nil {
		return err
	}
	if err := WriteKubeconfig(cp.KubeconfigFile(), cp.AdminConfig()); err != nil {
		return err
	}
	if !cp.opts.ControllerManager {
		cp.startDefaultAccounts()
	} else if err := cp.startManager(ctx); err != nil {
		return err
	}
	return cp.waitForDefaultAccount(ctx)
}

// makeDir creates the directory of this control plane, for this user only: the
// keys of cluster-admin lie in it.
func (cp *ControlPlane) makeDir() error {
	if cp.opts.Dir == "" {
		dir, err := os.MkdirTemp("", "servingcert-controlplane-")
		cp.dir, cp.ownsDir = dir, err == nil
		return err
	}
	dir, err := filepath.Abs(cp.opts.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("directory %s is not empty: it has %s", dir, entries[0].Name())
	}
	cp.dir = dir
	return nil
}

// path is a path below the control plane's directory.
func (cp *ControlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{cp.dir}, elem...)...)
}

// Stop kills the processes, waits until they are gone and removes their files:
// the whole directory if Start made it, else its contents. It may be called more
// than once. A process that had ended by itself is an error, with the end of its log.
func (cp *ControlPlane) Stop() error {
	if cp.stopAccounts != nil {
		cp.stopAccounts()
		<-cp.accountsDone
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	var errs []error
	// Clients first, so that none of them logs the loss of its server.
	for _, p := range []*component{cp.manager, cp.apiServer, cp.etcd} {
		errs = append(errs, p.endedAlone())
		p.kill()
	}
	if cp.dir == "" {
		return errors.Join(errs...)
	}
	if cp.ownsDir {
		return errors.Join(append(errs, os.RemoveAll(cp.EtcdDir()), os.RemoveAll(cp.dir))...)
	}
	for _, made := range []string{cp.path("etcd"), cp.EtcdDir(), cp.path("pki"), cp.path("logs"), cp.path("apiserver")} {
		errs = append(errs, os.RemoveAll(made))
	}
	return errors.Join(errs...)
}

// StopAPIServer takes kube-apiserver away, as a crash does: connections break at
// once. etcd keeps the data.
func (cp *ControlPlane) StopAPIServer() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.apiServer.kill()
}

// StartAPIServer brings kube-apiserver back at the same address with the same
// data and keys, and returns when it is ready. It is an error if it is running. It gets
// more flags, after those that it had: a feature gate may have been turned off.
func (cp *ControlPlane) StartAPIServer(ctx context.Context, more ...string) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.apiServer.running() {
		return errors.New("start kube-apiserver: it is running already")
	}
	return cp.launchAPIServer(ctx, more...)
}

// StopEtcd takes etcd away, as a crash does. Its data stays. kube-apiserver goes on, and
// fails whatever it is asked.
func (cp *ControlPlane) StopEtcd() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.etcd.kill()
}

// StartEtcd brings etcd back at the same address with what is in EtcdDir, and returns when
// it is healthy. It is an error if it is running.
func (cp *ControlPlane) StartEtcd(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.etcd.running() {
		return errors.New("start etcd: it is running already")
	}
	return cp.launchEtcd(ctx)
}

// StopControllerManager takes kube-controller-manager away, as a crash does.
func (cp *ControlPlane) StopControllerManager() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.manager.kill()
}

// StartControllerManager brings back the kube-controller-manager of Options, with what it
// reads anew. It returns when the process runs: it says nowhere that it is ready. It is an
// error if it is running, or never was.
func (cp *ControlPlane) StartControllerManager(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	switch {
	case cp.manager == nil:
		return errors.New("start kube-controller-manager: Options have none")
	case cp.manager.running():
		return errors.New("start kube-controller-manager: it is running already")
	}
	return cp.launchManager(ctx)
}

// EtcdDir is the data directory of etcd. Of an etcd that does not run it may be copied, and
// replaced by a copy.
func (cp *ControlPlane) EtcdDir() string {
	if cp.opts.EtcdDir != "" {
		return cp.opts.EtcdDir
	}
	return cp.path("etcd")
}

// Host is kube-apiserver's address, https://127.0.0.1:PORT.
func (cp *ControlPlane) Host() string { return "https://" + cp.host }

// PIDs are the process ids of the components that run, by binary name.
func (cp *ControlPlane) PIDs() map[string]int {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	pids := map[string]int{}
	for _, p := range []*component{cp.etcd, cp.apiServer, cp.manager} {
		if p.running() {
			pids[p.name] = p.cmd.Process.Pid
		}
	}
	return pids
}

// EtcdURL is where etcd answers clients, http://127.0.0.1:PORT; its metrics are there too.
func (cp *ControlPlane) EtcdURL() string {
	return strings.TrimPrefix(cp.etcd.arg("--listen-client-urls="), "--listen-client-urls=")
}

// LogDir holds the logs: etcd.log, kube-apiserver.log, kube-controller-manager.log.
func (cp *ControlPlane) LogDir() string { return cp.path("logs") }

// KubeconfigFile is a kubeconfig of cluster-admin; it goes with Stop.
func (cp *ControlPlane) KubeconfigFile() string { return cp.path("pki", "admin.kubeconfig") }

// AdminConfig is a client configuration of cluster-admin without client-side rate
// limit. Each call returns a copy.
func (cp *ControlPlane) AdminConfig() *rest.Config {
	return cp.certConfig(cp.pki.admin)
}
