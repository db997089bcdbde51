package main

import (
	"fmt"
	"strings"
)

// table returns the stacks and the matrix in Markdown.
func (m *matrix) table() string { return m.stackTable() + "\n" + m.pairTable() }

// stackTable has a row for each stack, with the number of pairs for which it was right.
func (m *matrix) stackTable() string {
	var out strings.Builder
	out.WriteString("| stack | version | verified, of those that have to | refused, of those that have to be |\n|---|---|---|---|\n")
	for _, t := range m.stacks {
		if len(t.absent) > 0 {
			fmt.Fprintf(&out, "| %s | not installed (%s) | – | – |\n", t.name, strings.Join(t.absent, ", "))
			continue
		}
		var right, all [2]int
		for i, p := range m.pairs {
			promise := p.promised(p.bundle, t.stack, m.now)
			if promise == noPromise || promise == mayFail {
				continue
			}
			all[promise]++
			if m.hole(t, i) == "" {
				right[promise]++
			}
		}
		fmt.Fprintf(&out, "| %s | %s | %d of %d | %d of %d |\n", t.name, t.release,
			right[mustVerify], all[mustVerify], right[mustRefuse], all[mustRefuse])
	}
	return out.String()
}

// pairTable has a row for each server and a column for each bundle.
func (m *matrix) pairTable() string {
	var out strings.Builder
	out.WriteString(header())
	for i := 0; i < len(m.pairs); {
		row := m.pairs[i].running
		cells := map[string]string{}
		for ; i < len(m.pairs) && m.pairs[i].server == row.server; i++ {
			cells[m.pairs[i].bundle.String()] = m.cell(i)
		}
		fmt.Fprintf(&out, "| %s | %s |", row, row.chain())
		for _, b := range bundles() {
			fmt.Fprintf(&out, " %s |", cells[b.String()])
		}
		out.WriteString("\n")
	}
	return out.String()
}

// header returns the head of the table of pairs, which the documentation must contain.
func header() string {
	line, rule := "| signed by generation, asked for as | in the handshake |", "|---|---|"
	for _, b := range bundles() {
		line, rule = line+" "+b.String()+" |", rule+"---|"
	}
	return line + "\n" + rule + "\n"
}

// byChance reports whether a stack that finds roots only by the last certificate found one that is not
// named there: GnuTLS hashes the names of roots into buckets, and tries all roots of a bucket.
func (m *matrix) byChance(t tested, i int) bool {
	p := m.pairs[i]
	return t.needsLast && p.promised(p.bundle, t.stack, m.now) == noPromise && !p.lastIsNamed(p.bundle, m.now)
}

// cell lists the stacks that accepted the certificate, or the others if they are fewer.
func (m *matrix) cell(i int) string {
	var did, didNot []string
	for _, t := range m.stacks {
		switch {
		case t.outcomes == nil:
		case t.outcomes[i].kind == verified && !m.byChance(t, i):
			did = append(did, t.name)
		default:
			didNot = append(didNot, t.name)
		}
	}
	switch {
	case len(did) == 0:
		return "–"
	case len(didNot) == 0:
		return "all"
	case len(didNot) < len(did):
		return "all but " + strings.Join(didNot, ", ")
	}
	return strings.Join(did, ", ")
}
