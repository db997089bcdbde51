package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// startPod starts the stored pod's only container. Its Service's ClusterIP is its
// address: that is the host's, and there is no kube-proxy that could translate.
func (d *demo) startPod(ctx context.Context) error {
	c := d.pod.Spec.Containers[0]
	root := d.Path("container")
	if err := d.mount(c, root); err != nil {
		return err
	}
	start := time.Now()
	if _, err := d.podVolume.Project(ctx, d.Admin); err != nil {
		return err
	}
	d.out.printf("volume %s projected into %s of the container in %s\n", d.podVolume.Volume.Name, api.DefaultMountPath, short(time.Since(start)))

	argv, env, err := kubelet.Command(c, map[string]string{"status.podIP": d.service.Spec.ClusterIP})
	if err != nil {
		return err
	}
	d.server = &process.Program{
		Label: web, Path: d.Path("bin", argv[0]), Args: argv[1:], Env: append(env, "CONTAINER_ROOT="+root), Dir: d.Path(),
		Once: true, NoHealth: true, Log: process.Log{File: d.logFile(web)},
	}
	if err := d.server.Run(); err != nil {
		return err
	}
	d.AtEnd(func() error { d.server.Kill(); return nil }) // it has nothing to give back
	d.watch(d.server)
	d.out.printf("process %d:\n", d.server.PID())
	for i, arg := range argv {
		if i > 0 {
			arg = "  " + arg
		}
		d.out.printf("  %s\n", arg)
	}
	took, err := installed.Await(ctx, "the server listens", starting, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.serverAddress())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	d.out.printf("it listens on %s after %s\n", d.serverAddress(), short(took))
	return nil
}

// mount finds the container's one volume, and where below its root that is.
func (d *demo) mount(c corev1.Container, root string) error {
	if len(c.VolumeMounts) != 1 {
		return fmt.Errorf("container %s has %d volume mounts, want the injected one", c.Name, len(c.VolumeMounts))
	}
	m := c.VolumeMounts[0]
	i := slices.IndexFunc(d.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if i < 0 {
		return errors.New("pod has no volume " + m.Name)
	}
	d.podVolume = kubelet.Mounted{Namespace: d.pod.Namespace, Volume: d.pod.Spec.Volumes[i], Dir: root + m.MountPath}
	return nil
}

// serverAddress is what kube-proxy would make of the Service: here the address is
// the ClusterIP and the port the target's.
func (d *demo) serverAddress() string {
	return net.JoinHostPort(d.service.Spec.ClusterIP, strconv.Itoa(d.service.Spec.Ports[0].TargetPort.IntValue()))
}
