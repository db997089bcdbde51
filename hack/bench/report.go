package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/measure/requests"
)

// report prints the table; every row holds what was measured and the budget.
func (b *bench) report(r results) {
	fmt.Printf("\nservingcert bench: %s, %d cores, GOMAXPROCS %d, N=%d, %d workers, %d rounds (median, least – most), %s\n\n",
		runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0), b.n, b.workers, b.rounds, time.Now().UTC().Format("2006-01-02"))
	row := func(what, measured, budget string) { fmt.Printf("| %-66s | %-34s | %-22s |\n", what, measured, budget) }
	row("what", measured, "budget")
	row("---", "---", "---")
	b.reportRates(row, r)
	b.reportSigner(row, r)
	if b.profile != "" {
		return // nothing else was measured
	}
	last := r.rounds[len(r.rounds)-1].cold.Total
	row("API writes per certificate (POST + PATCH + PUT)", fmt.Sprintf("%.3f", last.Writes/float64(b.n)), "2")
	row("API reads per certificate (GET, lists and watches included)", fmt.Sprintf("%.3f", last.Reads/float64(b.n)), "0")
	row("events written", fmt.Sprintf("%d", last.Events), "0")
	row(fmt.Sprintf("restart with %d certificates: until all were looked at", b.n), fmt.Sprintf("%.1f s", r.warm.Took.Seconds()), "")
	row("  peak RSS", mib(r.warm.Peak), "")
	row(fmt.Sprintf("  the same with %d foreign Secrets of 1 MB", b.foreign), fmt.Sprintf("%s (%+.1f MiB)", mib(r.warmForeign.Peak), (r.warmForeign.Peak-r.warm.Peak)/(1<<20)), "≤ +5 MiB")
	row("  API requests: reads, writes (the Lease, the status)", fmt.Sprintf("%.0f, %.0f", r.warm.Reads, r.warm.Writes), "")
	row("Service created → Secret there, one at a time, p50 / p99", fmt.Sprintf("%.1f / %.1f ms", ms(r.p50), ms(r.p99)), "10 / 50 ms")
	b.reportBacklog(row, r.backlog)
	if b.requests > 0 {
		b.reportRequests(row, r.answered)
	}
}

const measured = "measured"

// reportRates prints what is done a second, and what that costs each process.
func (b *bench) reportRates(row func(what, measured, budget string), r results) {
	type kind struct {
		what string
		of   func(round) measure.Phase
	}
	var kinds []kind
	for i, f := range floors {
		kinds = append(kinds, kind{f.what, func(r round) measure.Phase { return r.floors[i] }})
	}
	kinds = append(kinds, kind{"signer: from its first certificate to its last condition", func(r round) measure.Phase { return r.cold.Phase }})
	for _, k := range kinds {
		row(k.what+", per second", measure.Of(r.rounds, func(r round) float64 { return k.of(r).Rate() }).Format("%.0f"), "")
	}
	for i, f := range floors {
		ratio := measure.Of(r.rounds, func(r round) float64 { return r.cold.Rate() / r.floors[i].Rate() })
		row("signer's ratio to: "+f.what, ratio.Format("%.2f"), f.budget)
	}
	last := len(floors) - 1
	for i, f := range floors[:last] {
		ratio := measure.Of(r.rounds, func(r round) float64 { return r.floors[last].Rate() / r.floors[i].Rate() })
		row("ratio of that with the cryptography to: "+f.what, ratio.Format("%.2f"), "")
	}
	for _, k := range kinds {
		var phases []measure.Phase
		for _, r := range r.rounds {
			phases = append(phases, k.of(r))
		}
		row("CPU a certificate, ms: "+k.what, cpuOf(phases...), "")
	}
	for _, k := range kinds {
		row("bytes in etcd a certificate: "+k.what, measure.Of(r.rounds, func(r round) float64 { return k.of(r).Stored / float64(k.of(r).N) }).Format("%.0f"), "")
	}
}

// cpuOf returns what each process took for one certificate, in milliseconds: the median of the
// phases.
func cpuOf(phases ...measure.Phase) string {
	var each []string
	for _, process := range []string{controlplane.KubeAPIServer, controlplane.Etcd, measure.TheBench, measure.TheSigner} {
		if _, ran := phases[0].CPU[process]; ran {
			each = append(each, fmt.Sprintf("%s %.2f", process, measure.Of(phases, func(p measure.Phase) float64 { return p.CPUEach(process) }).Median()))
		}
	}
	return strings.Join(each, ", ")
}

// reportSigner prints what the signer itself needs.
func (b *bench) reportSigner(row func(what, measured, budget string), r results) {
	inSigner := measure.Of(r.rounds, func(r round) float64 { return r.cold.CPUEach(measure.TheSigner) })
	row("cryptography of a certificate alone: key, CSR, cfssl, one verification", measure.Of(r.rounds, func(r round) float64 { return ms(r.bare) }).Format("%.2f")+" ms", "")
	row("CPU a certificate in the signer", inSigner.Format("%.2f")+" ms", "")
	row("  as a multiple of its cryptography", measure.Of(r.rounds, func(r round) float64 { return r.cold.CPUEach(measure.TheSigner) / ms(r.bare) }).Format("%.2f"), "≤ 2.0")
	row("  the part of it that collects garbage", measure.Of(r.rounds, func(r round) float64 { return 100 * r.cold.gcShare() }).Format("%.0f")+" %", "≤ 10 %")
	row("live heap a certificate", measure.Of(r.rounds, func(r round) float64 { return r.cold.heapEach() / 1024 }).Format("%.1f")+" KiB", "")
	row(fmt.Sprintf("peak RSS issuing %d", b.n), measure.Of(r.rounds, func(r round) float64 { return r.cold.Total.Peak / (1 << 20) }).Format("%.1f")+" MiB", "≤ 150 MiB (at 10 000)")
	row("signer: from its start to its first certificate", measure.Of(r.rounds, func(r round) float64 { return r.cold.Started.Seconds() }).Format("%.1f")+" s", "")
}

// reportBacklog prints for how long others wait behind renewals.
func (b *bench) reportBacklog(row func(what, measured, budget string), r backlog) {
	worst := func(took []time.Duration) string {
		return fmt.Sprintf("%.0f / %.0f ms", ms(measure.Quantile(took, 0.5)), ms(measure.Quantile(took, 1)))
	}
	row("all certificates of a namespace are replaced: renewals in the queue", fmt.Sprintf("%.0f (%.1f s)", r.queued, r.took.Seconds()), "")
	row(fmt.Sprintf("  meanwhile, a new Service of it → Secret there, median / longest of %d", len(r.made)), worst(r.made), "1000 ms")
	row("  meanwhile, a Secret of it deleted → there again", worst(r.healed), "1000 ms")
}

// reportRequests prints the rows of requests.
func (b *bench) reportRequests(row func(what, measured, budget string), r requests.Answered) {
	running := func(p, floor measure.Phase) {
		row("  the same by a signer that runs, per second", fmt.Sprintf("%.0f", p.Rate()), "")
		row("  ratio", fmt.Sprintf("%.2f", p.Rate()/floor.Rate()), "≥ 0.5 (at 10 000)")
		row("  CPU of an answer, ms: bare client", cpuOf(floor), "")
		row("  CPU of an answer, ms: signer", cpuOf(p), "")
	}
	row("bare client: PodCertificateRequest status patch, per second", fmt.Sprintf("%.0f", r.PodFloor.Rate()), "(the floor)")
	row(fmt.Sprintf("signer: %d PodCertificateRequests from cold, per second", b.requests), fmt.Sprintf("%.0f (%.1f s from process start)", r.Pods.Rate(), r.Pods.Took.Seconds()), "")
	row("  ratio, the start of the signer included", fmt.Sprintf("%.2f", r.Pods.Rate()/r.PodFloor.Rate()), "")
	running(r.PodsRunning, r.PodFloor)
	row(fmt.Sprintf("%d pods at once: until the last has its certificate", requests.Burst), fmt.Sprintf("%.1f s", r.Burst.Seconds()), "")
	row("bare client: CSR approval + status patch, per second", fmt.Sprintf("%.0f", r.CSRFloor.Rate()), "(the floor)")
	row(fmt.Sprintf("signer: %d CertificateSigningRequests from cold, per second", b.requests), fmt.Sprintf("%.0f (%.1f s from process start)", r.CSRs.Rate(), r.CSRs.Took.Seconds()), "")
	row("  ratio, the start of the signer included", fmt.Sprintf("%.2f", r.CSRs.Rate()/r.CSRFloor.Rate()), "")
	running(r.CSRsRunning, r.CSRFloor)
}

func mib(bytes float64) string   { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
