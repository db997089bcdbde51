package simulate

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Print prints the simulations as tables in Markdown.
func Print(out io.Writer) {
	printMonth(out, 10_000)
	printMonth(out, 100_000)
	printCost(out)
	printShards(out)
}

func printMonth(out io.Writer, n int) {
	minutes := int(month / time.Minute)
	fmt.Fprintf(out, "\n### %d certificates of %s, each renewed when its bytes say\n\n", n, defaultLifetime())
	fmt.Fprintln(out, "| created | renewed in the first month | mean a minute | busiest minute | over the mean | in the busiest hour, a minute | month 12: mean | busiest minute | over the mean |")
	fmt.Fprintln(out, "| --- | --: | --: | --: | --: | --: | --: | --: | --: |")
	replaced := Peak{}
	for _, p := range Patterns() {
		load := Simulate(p, n, defaultLifetime(), 12*month)
		first, last := PeakOf(load.Renewed[:minutes]), PeakOf(load.Renewed[11*minutes:])
		fmt.Fprintf(out, "| %s | %d | %.2f | %d | %s | %.2f | %.2f | %d | %s |\n",
			p.Name, first.Total, first.Mean, first.Busiest, overMean(first), first.Hour, last.Mean, last.Busiest, overMean(last))
		if p.Succession > 0 {
			replaced = PeakOf(load.Replaced)
		}
	}
	fmt.Fprintf(out, "\nThe succession replaces %d in its window; the busiest minute has %d.\n", replaced.Total, replaced.Busiest)
}

// overMean is empty if there was nothing.
func overMean(p Peak) string {
	if p.Total == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", p.OverMean())
}

func printCost(out io.Writer) {
	fmt.Fprintf(out, "\n### One signer and one rotator, extrapolated\n\n")
	fmt.Fprintln(out, "| Services | pods | renewals a second | cold issue | restart | succession | signer | rotator | etcd | signer's CPU | dials a second | rotator's CPU |")
	fmt.Fprintln(out, "| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
	for _, size := range [][2]int{{10_000, 30_000}, {30_000, 300_000}, {100_000, 1_000_000}} {
		e := Measured().For(size[0], size[1], defaultLifetime(), dialEvery())
		fmt.Fprintf(out, "| %d | %d | %.3f | %s | %s | %s | %.0f MiB | %.0f MiB | %.0f MiB | %.4f cores | %.0f | %.2f cores |\n",
			e.Services, e.Pods, e.RenewalsASecond, rounded(e.Issue), rounded(e.Restart), rounded(e.Succession),
			e.SignerMiB, e.RotatorMiB, e.EtcdMiB, e.SignerCores, e.DialsASecond, e.RotatorCores)
	}
}

// The cluster of the shards' tables.
const (
	tenants      = 10_000
	certificates = 100_000
)

func printShards(out io.Writer) {
	for _, s := range []float64{0, 0.8, 1} {
		namespaces := Zipf(tenants, certificates, s)
		total, largest := 0, 0
		for _, ns := range namespaces {
			total += ns.Certificates
			largest = max(largest, ns.Certificates)
		}
		fmt.Fprintf(out, "\n### %d certificates in %d namespaces, the i-th with 1/i^%g of the first: the largest has %d\n\n", total, tenants, s, largest)
		fmt.Fprintln(out, "| shards | largest shard | over the mean | memory of it | succession, 2 cores for API server and etcd | 16 cores | moves to one more shard: namespaces | certificates | between old shards | by modulo: namespaces |")
		fmt.Fprintln(out, "| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
		for _, k := range []int{1, 2, 3, 4, 8, 16} {
			loads := Loads(namespaces, k, Rendezvous)
			most := slices.Max(loads)
			grow, modulo := Grow(namespaces, k, Rendezvous), Grow(namespaces, k, Modulo)
			fmt.Fprintf(out, "| %d | %d | %.2f | %.0f MiB | %s | %s | %.0f %% | %.0f %% | %d | %.0f %% |\n",
				k, most, float64(most)*float64(k)/float64(total), Measured().For(most, 0, defaultLifetime(), dialEvery()).SignerMiB,
				succession(loads, 2), succession(loads, 16), 100*grow.Namespaces, 100*grow.Certificates, grow.BetweenOld, 100*modulo.Namespaces)
		}
	}
}

// succession names what limits it, if that is not the largest shard.
func succession(loads []int, cores float64) string {
	took, apiServer := Measured().SuccessionOf(loads, cores)
	if apiServer {
		return rounded(took).String() + " (API server)"
	}
	return rounded(took).String()
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Second) }
