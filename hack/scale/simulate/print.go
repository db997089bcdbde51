package simulate

import (
	"fmt"
	"io"
	"time"
)

// Print prints the simulations as tables in Markdown.
func Print(out io.Writer) {
	printMonth(out, 10_000)
	printMonth(out, 100_000)
	printCost(out)
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

func rounded(d time.Duration) time.Duration { return d.Round(time.Second) }
