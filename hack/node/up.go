package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"golang.org/x/sync/errgroup"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/node/images"
	"github.com/servingcert/servingcert/hack/process"
)

// Up runs a node and returns when it is ready: the Node is, CoreDNS is, and names are resolved. If
// the node runs already, Up does nothing; an incomplete node is removed first. ctx limits only
// the start. The node runs until Down, also after this process has exited.
//
// A failed Up leaves no process; the logs stay in the directory until the next Up or Down.
func Up(ctx context.Context, o Options) (*Node, error) {
	if err := checkMachine(); err != nil {
		return nil, err
	}
	l, err := newLayout(o.Dir, o.Subnet)
	if err != nil {
		return nil, err
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if n, err := Attach(l.Dir); err == nil && n.Subnet == l.Subnet {
		n.log = o.log()
		return n, nil
	}
	if err := l.checkOwner(); err != nil {
		return nil, err
	}
	if err := l.clear(ctx); err != nil {
		return nil, fmt.Errorf("remove the rest of a node in %s: %w", l.Dir, err)
	}
	if err := l.checkRoutes(ctx); err != nil {
		return nil, err
	}
	n := &Node{layout: l, log: o.log()}
	if err := n.up(ctx); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("start node: %w", err), l.stop(cleanup))
	}
	return n, nil
}

func (n *Node) up(ctx context.Context) error {
	var err error
	if n.binaries, err = controlplane.Binaries(ctx, n.log, nodeBinaries...); err != nil {
		return err
	}
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		return err
	}
	if err := n.buildPause(ctx); err != nil {
		return err
	}
	if err := n.writeState(false); err != nil {
		return err
	}
	for _, step := range []func() error{n.writeCredentials, n.writeConfigs, n.makeCgroups} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := n.startHolder(ctx); err != nil {
		return err
	}
	if err := n.startAll(ctx); err != nil {
		return err
	}
	if err := n.ready(ctx); err != nil {
		return err
	}
	return n.writeState(true)
}

// startAll starts the components, concurrently where they are independent.
func (n *Node) startAll(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := n.start(groupCtx, containerd); err != nil {
			return err
		}
		return n.importOwn(groupCtx)
	})
	group.Go(func() error {
		if err := n.start(groupCtx, controlplane.Etcd); err != nil {
			return err
		}
		return n.start(groupCtx, controlplane.KubeAPIServer)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	group, groupCtx = errgroup.WithContext(ctx)
	for _, name := range order[3:] {
		group.Go(func() error { return n.start(groupCtx, name) })
	}
	group.Go(func() error { return n.applyCoreDNS(groupCtx) })
	return group.Wait()
}

// buildPause builds program pause, for the node and its pods.
func (n *Node) buildPause(ctx context.Context) error {
	built, err := images.Build(ctx, n.path("bin"), "./hack/node/pause")
	if err != nil {
		return err
	}
	n.binaries[holder] = built[0]
	return nil
}

// importOwn builds and imports the images of pause and CoreDNS.
func (n *Node) importOwn(ctx context.Context) error {
	for ref, name := range map[string]string{pauseImage: holder, coreDNSImage: controlplane.CoreDNS} {
		image, err := images.OfBinary(ref, n.binaries[name], images.Config{})
		if err != nil {
			return err
		}
		file := n.path("bin", name+".tar")
		if err := image.WriteFile(file); err != nil {
			return err
		}
		if err := n.Import(ctx, file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) applyCoreDNS(ctx context.Context) error {
	v, err := n.values()
	if err != nil {
		return err
	}
	manifest, err := render("coredns.yaml", v)
	if err != nil {
		return err
	}
	objects, err := deploy.Decode(manifest)
	if err != nil {
		return err
	}
	c, err := n.client()
	if err != nil {
		return err
	}
	return deploy.ApplyObjects(ctx, c, "node", objects)
}

func (n *Node) client() (client.Client, error) {
	cfg, err := n.Config()
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{})
}

// ready waits until pods can start and resolve names.
func (n *Node) ready(ctx context.Context) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	err = process.Poll(ctx, startTimeout, pollInterval, func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := c.Get(ctx, types.NamespacedName{Name: nodeName}, node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("Node is not ready")
	})
	if err != nil {
		return fmt.Errorf("wait for the Node: %w; logs are in %s", err, n.LogDir())
	}
	err = process.Poll(ctx, startTimeout, pollInterval, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := n.resolver().LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for CoreDNS: %w; logs are in %s", err, n.LogDir())
	}
	return nil
}
