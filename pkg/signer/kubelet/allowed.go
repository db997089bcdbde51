package kubelet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Allowed restricts the addresses and names that nodes may have.
type Allowed struct {
	// CIDRs are the ranges of the addresses of nodes. If empty, no address is approved.
	CIDRs []netip.Prefix
	// Suffixes are the parent domains of the DNS names of nodes. If empty, only the bare name
	// of the Node is approved.
	Suffixes []string
}

// ParseAllowed parses the values of --node-cidrs and --node-dns-suffixes. An error names the
// flag.
func ParseAllowed(cidrs, suffixes []string, clusterDomain string) (a Allowed, err error) {
	if len(cidrs)+len(suffixes) == 0 {
		return a, errors.New("--approve-kubelet-serving: requires --node-cidrs (such as 10.0.0.0/16), --node-dns-suffixes (such as nodes.example.com), or both: a node reports its addresses itself")
	}
	if a.CIDRs, err = api.ParseRanges(cidrs); err != nil {
		return a, fmt.Errorf("--node-cidrs: %w", err)
	}
	for _, r := range a.CIDRs {
		if r.Bits() == 0 {
			return a, fmt.Errorf("--node-cidrs: %q: contains every address: must be a range that only nodes use", r)
		}
	}
	for _, suffix := range suffixes {
		if err := api.CheckSuffix(suffix, clusterDomain); err != nil {
			return a, fmt.Errorf("--node-dns-suffixes: %q: %w", suffix, err)
		}
	}
	a.Suffixes = suffixes
	return a, nil
}

// reserved are names without a dot that resolve to something other than a node.
var reserved = []string{"localhost", "kubernetes"}

// refuseName returns why the Node may not have the DNS name, or "".
func (a Allowed) refuseName(name, node string) string {
	switch {
	case slices.Contains(reserved, name):
		return "is a reserved name"
	case strings.Contains(name, "."):
		below := func(suffix string) bool { return strings.HasSuffix(name, "."+suffix) }
		if !slices.ContainsFunc(a.Suffixes, below) {
			return "is below none of --node-dns-suffixes"
		}
	case name != node:
		return fmt.Sprintf("is not the name of the Node: of the names without a dot, only %q is allowed", shown(node))
	}
	return ""
}

// refuseIP returns why nodes may not have the address, or "".
func (a Allowed) refuseIP(ip netip.Addr) string {
	switch {
	case !ip.IsGlobalUnicast():
		return "is not a global unicast address"
	case !slices.ContainsFunc(a.CIDRs, func(r netip.Prefix) bool { return r.Contains(ip) }):
		return "is in none of --node-cidrs"
	}
	return ""
}
