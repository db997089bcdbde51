package controlplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
)

// portAttempts is how often a component is started with other ports if another process
// takes one of them first.
const portAttempts = 4

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	opts     Options
	dir      string
	ownsDir  bool
	binaries map[string]string
	pki      *pki
	minor    int // the x of kube-apiserver's version 1.x

	services   netip.Prefix // of ClusterIPs
	host       string       // HOST:PORT of kube-apiserver; stays the same across restarts
	etcdHost   string       // HOST:PORT at which kube-apiserver reaches etcd
	etcdHealth string       // URL

	mu        sync.Mutex
	etcd      *component
	apiServer *component
	manager   *component

	stopAccounts context.CancelFunc // ends the loop that creates default ServiceAccounts
	accountsDone chan struct{}
}

// Start runs a control plane and returns when it is ready: RBAC's default roles exist, and so
// do namespace "default" and its ServiceAccount. ctx limits only the start; call Stop to end the
// control plane. A failed Start leaves no process and no file, and its error contains the end of
// the failed component's log.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	if opts.Log == nil {
		opts.Log = os.Stderr
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
		opts:     opts,
		binaries: binaries,
		// 127.0.0.0/16 is left alone: resolvers and other daemons listen there.
		services: netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(16 + rand.IntN(239))}), 16),
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
	if err := errors.Join(cp.makeDir(), os.MkdirAll(cp.LogDir(), 0o700)); err != nil {
		return err
	}
	var err error
	if cp.pki, err = newPKI(cp.path("pki"), cp.services.Addr().Next()); err != nil {
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

// makeDir creates the directory of this control plane, for this user only: it will
// contain the key of cluster-admin.
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
		return fmt.Errorf("directory %s is not empty: it contains %s", dir, entries[0].Name())
	}
	cp.dir = dir
	return nil
}

// path returns a path below the control plane's directory.
func (cp *ControlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{cp.dir}, elem...)...)
}

// Stop kills the processes, waits until they have exited and removes their files: the whole
// directory if Start created it, otherwise its contents. It may be called more than once. It
// returns an error, with the end of the log, for each process that had exited before.
func (cp *ControlPlane) Stop() error {
	if cp.stopAccounts != nil {
		cp.stopAccounts()
		<-cp.accountsDone
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	var errs []error
	// Clients first, so that they do not log that their server is gone.
	for _, p := range []*component{cp.manager, cp.apiServer, cp.etcd} {
		errs = append(errs, p.failure())
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

// StopAPIServer kills kube-apiserver, as a crash does: connections break at once. etcd keeps the data.
func (cp *ControlPlane) StopAPIServer() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.apiServer.kill()
}

// StartAPIServer restarts kube-apiserver at the same address, with the same data and keys, and
// returns when it is ready. Further flags follow the previous ones and override them. It returns
// an error if kube-apiserver is running.
func (cp *ControlPlane) StartAPIServer(ctx context.Context, more ...string) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.apiServer.running() {
		return errors.New("start kube-apiserver: it is already running")
	}
	return cp.launchAPIServer(ctx, more...)
}

// StopEtcd kills etcd, as a crash does. Its data stays. kube-apiserver keeps running, and
// its requests fail.
func (cp *ControlPlane) StopEtcd() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.etcd.kill()
}

// StartEtcd restarts etcd at the same address with the data in EtcdDir, and returns when
// it is healthy. It returns an error if etcd is running.
func (cp *ControlPlane) StartEtcd(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.etcd.running() {
		return errors.New("start etcd: it is already running")
	}
	return cp.launchEtcd(ctx)
}

// StopControllerManager kills kube-controller-manager, as a crash does.
func (cp *ControlPlane) StopControllerManager() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.manager.kill()
}

// StartControllerManager restarts kube-controller-manager. It does not wait until the controllers
// have started, which kube-controller-manager does not report. It returns an error if
// kube-controller-manager is running, or if Options.ControllerManager is not set.
func (cp *ControlPlane) StartControllerManager(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	switch {
	case cp.manager == nil:
		return errors.New("start kube-controller-manager: Options.ControllerManager is not set")
	case cp.manager.running():
		return errors.New("start kube-controller-manager: it is already running")
	}
	return cp.launchManager(ctx)
}

// EtcdDir returns the data directory of etcd. While etcd does not run, it may be copied and
// replaced by a copy.
func (cp *ControlPlane) EtcdDir() string {
	if cp.opts.EtcdDir != "" {
		return cp.opts.EtcdDir
	}
	return cp.path("etcd")
}

// Host returns kube-apiserver's address, https://127.0.0.1:PORT.
func (cp *ControlPlane) Host() string { return "https://" + cp.host }

// PIDs returns the process IDs of the running components, by binary name.
func (cp *ControlPlane) PIDs() map[string]int {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	pids := map[string]int{}
	for _, p := range []*component{cp.etcd, cp.apiServer, cp.manager} {
		if p.running() {
			pids[p.Name()] = p.PID()
		}
	}
	return pids
}

// LogDir returns the directory of etcd.log, kube-apiserver.log and kube-controller-manager.log.
func (cp *ControlPlane) LogDir() string { return cp.path("logs") }

// KubeconfigFile returns the path of a kubeconfig of cluster-admin, which Stop removes.
func (cp *ControlPlane) KubeconfigFile() string { return cp.path("pki", "admin.kubeconfig") }

// AdminConfig returns a new client configuration of cluster-admin without client-side rate limit.
func (cp *ControlPlane) AdminConfig() *rest.Config {
	return cp.certConfig(cp.pki.admin)
}
