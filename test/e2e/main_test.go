//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/servingcert/servingcert/hack/node"
	"github.com/servingcert/servingcert/pkg/api"
)

// The flags; paths are relative to this directory.
var (
	nodeDir    = flag.String("dir", "/var/lib/servingcert-e2e", "directory of the node")
	nodeSubnet = flag.String("subnet", "10.89.0.0/16", "network of the node")
	imageDirs  = flag.String("images", "../../bin/images,../../bin/e2e/images", "directories with the images for the node")
	outDir     = flag.String("out", "../../bin/e2e", "directory for data about failures")
	keep       = flag.Bool("keep", false, "do not clean up at the end")
	// The Services of scene distrust.
	distrustServices = flag.Int("services", 100, "number of Services of scene distrust, whose certificates are replaced at the same time as the webhook's")
	onlyScenes       = flag.String("scenes", "", "comma-separated names of scenes, or each with a leading hyphen to exclude it (default: all)")
)

// cleaningUp is the timeout for stopping the node, or for deleting objects.
const cleaningUp = time.Minute

// the cluster.
var the *cluster

func TestMain(m *testing.M) {
	flag.Parse()
	// Errors of clients are returned.
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// inUse is the exit code if another run uses the node. The Makefile removes the node after others.
const inUse = 3

// lockNode fails if another run uses the node's directory. The lock ends with this process.
func lockNode() error {
	f, err := os.OpenFile(*nodeDir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%s: another run uses this node: %w", *nodeDir, err)
	}
	lock = f
	return nil
}

// lock stays open, because a file that is garbage is closed.
var lock *os.File

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end := sync.OnceValue(cleanUp)
	defer onSignal(end)()
	if kubeconfig := os.Getenv("KUBECONFIG"); kubeconfig != "" {
		the, err = connect(ctx, kubeconfig)
	} else {
		if err := lockNode(); err != nil {
			return inUse, err
		}
		the, err = upNode(ctx)
	}
	if err == nil {
		err = the.prepare(ctx)
	}
	if err == nil {
		code = m.Run()
		printTable(os.Stdout)
		if code != 0 {
			err = keepAll(ctx)
		}
	}
	return code, errors.Join(err, end())
}

// onSignal cleans up and exits when this process is interrupted.
func onSignal(end func() error) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		fmt.Fprintln(os.Stderr, "interrupted")
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
		}
		os.Exit(1)
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// upNode starts a node for the scenes, after removing that of an earlier run.
func upNode(ctx context.Context) (*cluster, error) {
	tars, err := imageFiles()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	options := node.Options{Dir: *nodeDir, Subnet: *nodeSubnet}
	if err := node.Down(ctx, options); err != nil {
		return nil, err
	}
	n, err := node.Up(ctx, options)
	if err != nil {
		return nil, err
	}
	up := time.Since(start)
	if err := n.Import(ctx, tars...); err != nil {
		return nil, err
	}
	figures = append(figures, fmt.Sprintf("the node was ready after %s, with the images after %s", seconds(up), seconds(time.Since(start))))
	c, err := connect(ctx, n.Kubeconfig())
	if err != nil {
		return nil, err
	}
	c.machine = n
	return c, nil
}

func imageFiles() ([]string, error) {
	var all []string
	for dir := range strings.SplitSeq(*imageDirs, ",") {
		tars, err := filepath.Glob(filepath.Join(dir, "*.tar"))
		if err != nil || len(tars) == 0 {
			return nil, errors.Join(err, fmt.Errorf("no images in %s: make e2e builds them", dir))
		}
		all = append(all, tars...)
	}
	return all, nil
}

// cleanUp stops the node. In the user's cluster, it deletes the scenes' objects and leaves servingcert
// installed.
func cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleaningUp)
	defer cancel()
	switch {
	case *keep:
		fmt.Fprintln(os.Stderr, "nothing is cleaned up: -keep")
		return nil
	case os.Getenv("KUBECONFIG") == "":
		return node.Down(ctx, node.Options{Dir: *nodeDir, Subnet: *nodeSubnet})
	case the == nil:
		return nil
	}
	fmt.Fprintf(os.Stderr, "the scenes are deleted; servingcert stays, the signer with %s\n", strings.Join(signerArgs, " "))
	return the.removeScenes(ctx)
}

// prepare gets the tools that the scenes need.
func (c *cluster) prepare(ctx context.Context) (err error) {
	if err := os.MkdirAll(*outDir, 0o755); err != nil {
		return err
	}
	if c.tools, err = getTools(ctx, *outDir); err != nil {
		return err
	}
	if c.machine != nil {
		if c.tools.kubelet, err = c.changeKubelet(ctx); err != nil {
			return err
		}
	}
	c.writes, err = watchWrites(ctx, c.clients, metav1.NamespaceAll, api.LabelManagedBy)
	return err
}

// keepAll keeps data about failed scenes, and prints where.
func keepAll(ctx context.Context) error {
	dir, err := filepath.Abs(filepath.Join(*outDir, "failed-"+time.Now().Format("20060102-150405")))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = the.keep(ctx, dir)
	if the.machine != nil {
		said, failed := ended(the.machine)
		fmt.Fprint(os.Stderr, "\n", said)
		err = errors.Join(err, failed, copyLogs(filepath.Join(dir, "node"), the.machine.LogDir()))
	}
	fmt.Fprintf(os.Stderr, "\nlogs, events, conditions and reports of clients are in %s\n", dir)
	return err
}
