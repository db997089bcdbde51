//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/attempts"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

const protocolsNamespace = "e2e-protocols"

// speaker is a program of scene protocols, which runs without TLS.
type speaker struct {
	name, image string
	port        int
	// mixed: its TLS port also accepts plaintext.
	mixed   bool
	command []string
	// exchanges are those of clients over TLS; the first is also made without TLS.
	exchanges []string
}

// grpcSpeaker is not called by the unchanged clients.
var grpcSpeaker = speaker{"grpc", "talk", 9000, false, []string{"/talk", "grpc", ":9000"}, []string{"grpc"}}

var speakers = []speaker{
	{"nginx", "nginx", 8080, false, []string{"/usr/sbin/nginx", "-e", "stderr", "-c", "/files/nginx.conf"}, []string{"http"}},
	{"redis", "plaintext", 6379, true, []string{"redis-server", "--port", "6379", "--save", "", "--protected-mode", "no", "--dir", "/tmp"}, []string{"redis"}},
	{"postgres", "plaintext", 5432, false, []string{
		"sh", "-c", "initdb -D /tmp/data -U postgres --pwfile=/files/password --no-sync >/dev/null && " +
			"exec postgres -D /tmp/data -h '*' -c hba_file=/files/pg_hba.conf -c unix_socket_directories=/tmp",
	}, []string{"postgres", "postgres-sslrequest"}},
	grpcSpeaker,
	{"websocket", "talk", 8080, true, []string{"/talk", "websocket", ":8080"}, []string{"websocket"}},
	{"node", "plaintext", 8080, false, []string{"node", "/files/server.js"}, []string{"http"}},
	{"wrapped", "script", 8080, true, []string{"sh", "-c", "echo hello > /tmp/index.html; exec python3 -m http.server 8080 --directory /tmp"}, []string{"http"}},
	{"scratch", "server", 8080, false, []string{"/server", "--plain", "--listen=:8080"}, []string{"http"}},
}

// protocolsScene: programs without TLS get it, in addition to plaintext, by a port of their Service, while
// clients continue without TLS. Some connect by a proxy. Then all is removed again, step by step.
func protocolsScene() *scene {
	s := &scene{name: "protocols", about: "eight unchanged programs of six protocols: TLS in addition to plaintext, and back", manifest: "protocols.yaml"}
	s.up = func(t *testing.T, c *cluster) {
		start := time.Now()
		c.speak(t, false)
		c.exchange(t, plaintextTargets())
		c.speak(t, true)
		c.exchange(t, slices.Concat(plaintextTargets(), tlsTargets()))
		for _, p := range speakers {
			eventually(t, verifying, "the rotator sees it", func(ctx context.Context) error {
				return c.hasCondition(ctx, protocolsNamespace, p.name, api.ConditionServing, "True", api.ServingCurrent)
			})
		}
		c.connect(t)
		c.apply(t, "protocolsclients.yaml")
		eventually(t, starting, "psql and redis-cli", func(ctx context.Context) error { return c.hasSucceeded(ctx, protocolsNamespace, "clients") })
		s.note(fmt.Sprintf("TLS was served %s after the start without it; psql and redis-cli verified it", seconds(time.Since(start))))
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) {
		c.protocolsServe(t, func(served handshake.Served, leaf string) bool { return served.Leaf == leaf })
	}
	s.succeeded = func(t *testing.T, c *cluster) {
		c.protocolsServe(t, func(served handshake.Served, _ string) bool { return isOfGeneration(served.Issuer, "2") })
		s.note("rollout, renewal, succession: " + c.exchanged(t, exchanging))
		if c.machine != nil {
			s.note(c.connects(t))
			s.note(c.unchangedConnect(t))
		}
		c.exchange(t, plaintextTargets())
	}
	// After the step of scene identities, which renews the identities of the clients that connect.
	s.alone = func(t *testing.T, c *cluster) {
		if c.machine != nil {
			s.note(c.proxyKilled(t, grpcSpeaker))
		}
		s.note("a client without TLS, whose proxy connects: " + c.exchanged(t, connected))
		c.restartsNone(t, unchanged)
		c.disconnect(t)
		c.exchange(t, plaintextTargets())
		c.speak(t, false)
		s.note("and back: that client since it has no proxy: " + c.exchanged(t, connected) + "; one that never had one: " + c.exchanged(t, exchanging))
		c.restartsNone(t, unchanged)
		for _, name := range []string{connected, unchanged} {
			require.NoError(t, c.clients.AppsV1().Deployments(clientsNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	}
	return s
}

// speak deploys all programs, with or without a TLS port in their Services, and waits for the rollout.
func (c *cluster) speak(t *testing.T, tls bool) {
	t.Helper()
	for _, p := range speakers {
		port, name := strconv.Itoa(p.port), "sc-tls-"
		if p.mixed {
			name = "sc-any-"
		}
		command, err := json.Marshal(p.command)
		require.NoError(t, err)
		replaced := []string{"e2e-server", "e2e-" + p.image, "[/server]", string(command), "name: program", "name: " + p.name, "app: program", "app: " + p.name}
		if tls {
			replaced = append(replaced, "sc-tls-8080", name+port)
		} else {
			replaced = append(replaced, "annotations: {servingcert.dev/secret-name: program-tls}", "annotations: {}", "    - {name: tls, port: 443, targetPort: sc-tls-8080}\n", "")
		}
		c.apply(t, "protocolsprogram.yaml", append(replaced, "targetPort: 8080", "targetPort: "+port, "containerPort: 8080", "containerPort: "+port)...)
	}
	_, err := c.run(t.Context(), c.tools.kubectl, "rollout", "restart", "--namespace", protocolsNamespace, "deployment")
	require.NoError(t, err)
	eventually(t, starting, "the programs", func(ctx context.Context) error { return c.rolledOut(ctx, protocolsNamespace, "") })
	eventually(t, starting, "the previous pods are gone", func(ctx context.Context) error {
		all, err := c.clients.CoreV1().Pods(protocolsNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app"})
		if err == nil && len(all.Items) != len(speakers) {
			err = fmt.Errorf("%d pods; want %d", len(all.Items), len(speakers))
		}
		return err
	})
	pods, err := c.pods(t.Context(), protocolsNamespace, nil)
	require.NoError(t, err)
	for i := range pods {
		if pods[i].Labels["app"] != "" {
			_, has := api.ProxyOf(&pods[i])
			assert.Equal(t, tls, has, "pod %s has a proxy", pods[i].Name)
		}
	}
}

func plaintextTargets() (all []handshake.Target) {
	for _, p := range speakers {
		all = append(all, p.target(80, p.exchanges[0], true))
	}
	return all
}

// tlsTargets returns the TLS ports; mixed ones also as plaintext targets.
func tlsTargets() (all []handshake.Target) {
	for _, p := range speakers {
		for _, exchange := range p.exchanges {
			all = append(all, p.target(443, exchange, false))
		}
		if p.mixed {
			all = append(all, p.target(443, p.exchanges[0], true))
		}
	}
	return all
}

func (p speaker) target(port int, exchange string, plaintext bool) handshake.Target {
	s := server{namespace: protocolsNamespace, service: p.name}
	return handshake.Target{Address: net.JoinHostPort(s.name()+".cluster.local.", strconv.Itoa(port)), Name: s.name(), Exchange: exchange, Plaintext: plaintext}
}

// exchange fails the test unless the client's exchange with each target succeeds. The client then follows
// exactly these targets.
func (c *cluster) exchange(t *testing.T, targets []handshake.Target) {
	t.Helper()
	c.exchangeFrom(t, exchanging, targets)
}

func (c *cluster) exchangeFrom(t *testing.T, client string, targets []handshake.Target) {
	t.Helper()
	for _, target := range targets {
		eventually(t, settling, fmt.Sprintf("%s: %+v", client, target), func(ctx context.Context) error { return c.ask(ctx, client, http.MethodPost, "shake", target) })
	}
	require.NoError(t, c.ask(t.Context(), client, http.MethodPut, "targets", targets))
}

// protocolsServe fails the test unless the client saw the leaf in each Secret last, and no container was
// restarted.
func (c *cluster) protocolsServe(t *testing.T, asItHasToBe func(served handshake.Served, leaf string) bool) {
	t.Helper()
	eventually(t, propagating, "the programs' proxies", func(ctx context.Context) error {
		report, err := c.report(ctx, exchanging)
		errs := []error{err}
		for _, p := range speakers {
			leaf, err := c.currentLeaf(ctx, protocolsNamespace, p.name)
			errs = append(errs, err)
			for _, exchange := range p.exchanges {
				account, _ := report.Of(p.target(443, exchange, false))
				if latest := account.Latest(); !asItHasToBe(latest, leaf) {
					errs = append(errs, fmt.Errorf("%s, %s: served %.12s of %q; want %.12s", p.name, exchange, latest.Leaf, latest.Issuer, leaf))
				}
			}
		}
		return errors.Join(errs...)
	})
	for _, p := range speakers {
		processes, err := c.processesOf(t.Context(), server{namespace: protocolsNamespace, service: p.name})
		require.NoError(t, err)
		for pod, restarts := range processes {
			assert.Zero(t, restarts, "restarts of pod %s of %s", pod, p.name)
		}
	}
}

// exchanged fails the test if any exchange of a client has failed. It returns the number of exchanges.
func (c *cluster) exchanged(t *testing.T, client string) string {
	t.Helper()
	report, err := c.report(t.Context(), client)
	require.NoError(t, err)
	of := map[bool]int{}
	for _, account := range report.Accounts {
		of[account.Target.Plaintext] += account.Handshakes
		assert.NotZero(t, account.Handshakes, "%+v", account.Target)
		for _, f := range account.Failures[:min(3, len(account.Failures))] {
			t.Errorf("%+v: %d of %d failed, at %s after %s: %s", account.Target, account.Failed, account.Handshakes, f.At.Format(time.RFC3339Nano), f.Took, f.Err)
		}
	}
	_, failed := report.Totals()
	assert.Zero(t, failed)
	return fmt.Sprintf("%d exchanges in TLS and %d in plaintext by %d clients, the slowest took %s, %d failed", of[false], of[true], len(report.Accounts), seconds(report.Slowest()), failed)
}

// proxyKilled kills the proxy in a program's only pod, while the clients use the other programs. It fails
// the test unless the kubelet restarts the proxy, but not the program. It returns for how long new
// connections failed.
func (c *cluster) proxyKilled(t *testing.T, p speaker) string {
	t.Helper()
	ofIt := func(target handshake.Target) bool { return target.Name == p.target(0, "", false).Name }
	for client, targets := range map[string][]handshake.Target{exchanging: slices.Concat(plaintextTargets(), tlsTargets()), connected: connectTargets()} {
		require.NoError(t, c.ask(t.Context(), client, http.MethodPut, "targets", slices.DeleteFunc(targets, ofIt)))
	}
	pods, err := c.pods(t.Context(), protocolsNamespace, map[string]string{"app": p.name})
	require.NoError(t, err)
	require.Len(t, pods, 1)
	pids, err := processesIn(pods[0].UID, "proxy")
	require.NoError(t, err)
	require.NoError(t, kill9(pids))
	var group sync.WaitGroup
	longest := [2]time.Duration{}
	for i, target := range []handshake.Target{p.target(443, p.exchanges[0], false), p.target(80, p.exchanges[0], true)} {
		group.Go(func() {
			const settled = 30 // a tenth of a second each
			var all []attempts.Attempt
			for end := time.Now().Add(settling); attempts.AcceptedLast(all) < settled; time.Sleep(100 * time.Millisecond) {
				at := time.Now()
				err := c.ask(t.Context(), exchanging, http.MethodPost, "shake", target)
				all = append(all, attempts.Attempt{At: at, Refused: err != nil})
				if !assert.True(t, at.Before(end), "%+v: %v", target, err) {
					return
				}
			}
			longest[i] = attempts.Sum(all).Longest
		})
	}
	group.Wait()
	pods, err = c.pods(t.Context(), protocolsNamespace, map[string]string{"app": p.name})
	require.NoError(t, err)
	require.Len(t, pods, 1)
	assert.EqualValues(t, 1, pods[0].Status.InitContainerStatuses[0].RestartCount, "restarts of the proxy")
	assert.EqualValues(t, 0, pods[0].Status.ContainerStatuses[0].RestartCount, "restarts of the program")
	return fmt.Sprintf("the proxy in the only pod of %s killed: TLS failed for %s, plaintext for %s", p.name, seconds(longest[0]), seconds(longest[1]))
}

// hasSucceeded returns nil if the Job has succeeded.
func (c *cluster) hasSucceeded(ctx context.Context, namespace, name string) error {
	job := &batchv1.Job{}
	if err := c.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); err != nil {
		return err
	}
	if job.Status.Succeeded == 0 {
		return fmt.Errorf("Job %s: succeeded: %d, failed: %d, conditions %v", name, job.Status.Succeeded, job.Status.Failed, job.Status.Conditions)
	}
	return nil
}
