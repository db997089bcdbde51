package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// writeCallers writes the callers of each guarded port, and which entries of the list nobody used.
func writeCallers(s screen, found status.Clients) error {
	for i, p := range found.Guarded {
		head := fmt.Sprintf("Service %s/%s, port %s, who calls: seen by %d of %s", found.Namespace, found.Service, p.Name, p.Pods, api.Count(p.Pods+p.Unguarded+len(found.Unanswered), "pod"))
		if p.Since != nil {
			head += ", all recording since " + clock(p.Since)
		}
		if i+len(found.Ports) > 0 {
			head = "\n" + head
		}
		if err := writeLines(s, head+"\n"); err != nil {
			return err
		}
		if err := writeCallerRows(s, p); err != nil {
			return err
		}
		text := evicted("identities", p.Evicted, p.EvictedLast) + evicted("addresses of clients without an identity", p.EvictedStrangers, p.EvictedStrangersLast)
		if err := writeLines(s, text); err != nil {
			return err
		}
		if err := writeAdvice(s, p.Advice, p.Verdict); err != nil {
			return err
		}
	}
	return writeLines(s, listText(found))
}

// evicted returns how many clients the proxies no longer list; empty if there are none.
func evicted(what string, n uint64, last *time.Time) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("The proxies evicted %s %d times; the last of these was seen at %s.\n", what, n, clock(last))
}

func writeCallerRows(s screen, p status.CallersPort) error {
	if len(p.Callers) == 0 {
		return nil
	}
	rows := [][]cell{cells("CLIENT", "LISTED", "LAST", "FIRST", "CONNECTIONS", "REFUSED", "ADDRESSES")}
	for _, c := range p.Callers[:min(len(p.Callers), maxRows)] {
		listed := "yes"
		if !c.Admitted {
			listed = "no: " + strings.Join(c.Reasons, ",")
		}
		addresses := "-"
		if len(c.Addresses) > 0 {
			addresses = api.Listed(c.Addresses, 3)
		}
		rows = append(rows, cells(c.Name, listed, clock(&c.Last), clock(&c.First), strconv.FormatUint(c.Connections, 10), strconv.FormatUint(c.Refused, 10), addresses))
	}
	if err := (&table{}).write(s, rows...); err != nil {
		return err
	}
	return writeLines(s, moreRows(len(p.Callers)))
}

// listText returns which entries of the list nobody used, or why that is unknown.
func listText(found status.Clients) string {
	list := found.List
	if list == nil {
		return ""
	}
	text := "\nAnnotation " + api.AnnotationClients + ": "
	switch unused := list.Unused(); {
	case list.Invalid != "":
		text += "it admits nobody: " + list.Invalid
	case list.NotSeen != "":
		text += "whether an entry is unused is unknown: " + list.NotSeen
	case len(unused) > 0:
		text += fmt.Sprintf("entries that nobody used since %s: %s", clock(list.Since), strings.Join(unused, ", "))
	default:
		text += "each entry was used since " + clock(list.Since)
	}
	return text + "\n"
}
