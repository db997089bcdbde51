package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	ours "github.com/servingcert/servingcert/pkg/mutate/admission"
)

// reviews is the number of reviews per round and webhook.
const reviews = 2000

// measureWebhook posts reviews of a pod of an annotated Service to the webhook, and the same number to
// a webhook that allows everything, in turns.
func (b *bench) measureWebhook(ctx context.Context) error {
	if err := b.ensureIssued(ctx); err != nil {
		return err
	}
	if err := b.makeService(ctx, reviewsNamespace, 0, asks(0)); err != nil {
		return err
	}
	if err := b.KeepVolume(ctx); err != nil {
		return err
	}
	host, address, err := b.WebhookAddress(ctx)
	if err != nil {
		return err
	}
	p, err := b.startProgram(ctx, "webhook", "--bind-address="+host, "--shutdown-delay=0s")
	if err != nil {
		return err
	}
	defer b.kill(p)
	if err := p.AwaitReady(ctx); err != nil {
		return err
	}
	floor, floorURL, err := b.startAllow()
	if err != nil {
		return err
	}
	defer floor.Kill()
	urls := [2]string{floorURL, "https://" + address + ours.Path}
	for _, connections := range []int{1, workers} {
		b.Say("%d reviews over %d connections, %d rounds", reviews, connections, b.rounds)
		var rates [2]process.Spread
		var times [2][]time.Duration
		for range b.rounds {
			for i, url := range urls {
				start := time.Now()
				took, err := post(ctx, url, connections, i == 1)
				if err != nil {
					return err
				}
				rates[i], times[i] = append(rates[i], reviews/time.Since(start).Seconds()), append(times[i], took...)
			}
		}
		b.reportReviews(connections, rates, times)
	}
	metrics, err := p.Scrape(ctx)
	if err != nil {
		return err
	}
	b.row(fmt.Sprintf("webhook: peak RSS beside %d certificates", b.issued), "", "%.1f MiB", p.Used().Peak/(1<<20))
	b.row("webhook: reads from the API server for reviews", "0", "%.0f", metrics.Sum("servingcert_webhook_live_reads_total"))
	return b.stop(p)
}

// startAllow starts the webhook that allows everything in its own process, and returns it with its URL.
func (b *bench) startAllow() (*process.Program, string, error) {
	address, err := process.FreeAddress()
	self, err2 := os.Executable()
	if err := errors.Join(err, err2); err != nil {
		return nil, "", err
	}
	p, err := startServer(b.Path(), address, []string{self, "allow", address})
	return p, "https://" + address, err
}

// reportReviews reports the rounds of the floor and of the webhook.
func (b *bench) reportReviews(connections int, rates [2]process.Spread, times [2][]time.Duration) {
	var ratios process.Spread
	for i, rate := range rates[1] {
		ratios = append(ratios, rate/rates[0][i])
	}
	b.row(fmt.Sprintf("reviews over %d connections: allowed without work, per second", connections), "(the floor)", "%s", rates[0].Format("%.0f"))
	b.row("  injected, per second", "", "%s", rates[1].Format("%.0f"))
	b.row("  ratio", "≥ 0.6 of the handlers alone (BenchmarkRatio)", "%s", ratios.Format("%.2f"))
	b.row("  a review, p50 / p99: allowed without work, injected", "", "%.2f / %.2f, %.2f / %.2f ms", ms(process.Quantile(times[0], 0.5)), ms(process.Quantile(times[0], 0.99)),
		ms(process.Quantile(times[1], 0.5)), ms(process.Quantile(times[1], 0.99)))
}

// review is a review of a pod of the Service, with mode args.
const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
	"uid": "1", "operation": "CREATE", "namespace": "` + reviewsNamespace + `", "kind": {"version": "v1", "kind": "Pod"}, "resource": {"version": "v1", "resource": "pods"},
	"object": {
		"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-", "labels": {"app": "service-00000"}, "annotations": {"` + api.AnnotationMode + `": "args"}},
		"spec": {"containers": [{"name": "web", "image": "registry.example.com/shop/web:v1.4.2", "args": ["serve", "--port=443"], "ports": [{"name": "https", "containerPort": 443}]}]}
	}
}}`

// allow serves a webhook that allows everything: controller-runtime's handler, without any work.
func allow(address string) (err error) {
	server := httptest.NewUnstartedServer(&admission.Webhook{
		Handler:        admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }),
		LogConstructor: func(logr.Logger, *admission.Request) logr.Logger { return logr.Discard() },
	})
	if err := server.Listener.Close(); err != nil {
		return err
	}
	if server.Listener, err = net.Listen("tcp", address); err != nil {
		return err
	}
	server.StartTLS()
	select {} // until the process is killed
}

// post posts reviews over the given number of connections, and returns the time of each. It returns an
// error if one is not allowed, or is not patched although it should be.
func post(ctx context.Context, url string, connections int, patched bool) ([]time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: connections, //nolint:gosec // on loopback
	}}
	defer client.CloseIdleConnections()
	times := make([]time.Duration, reviews)
	err := process.Each(ctx, reviews, connections, func(ctx context.Context, i int) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(review))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		start := time.Now()
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		times[i] = time.Since(start)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if !bytes.Contains(answer, []byte(`"allowed":true`)) || patched != bytes.Contains(answer, []byte(`"patch":`)) {
			return fmt.Errorf("%s answered %s", url, answer)
		}
		return nil
	})
	return times, err
}
