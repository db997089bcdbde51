package api

import (
	"math"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Limits are what the operator of a signer allows, and the defaults.
type Limits struct {
	DefaultDuration time.Duration
	MinDuration     time.Duration
	MaxDuration     time.Duration
	ClusterDomain   string
	// FormerDomains are former cluster domains. Services keep their names in them while a
	// certificate has room.
	FormerDomains     []string
	PermitDNSSuffixes []SuffixRule
	// PermitAllNames permits all valid names, where nothing is issued. No signer sets it.
	PermitAllNames   bool
	PermitClusterIPs bool
	PermitRSA4096    bool
	// ClusterIPDuration bounds the lifetime of a certificate with ClusterIPs: when a Service
	// is deleted, its address may be assigned to another at once.
	ClusterIPDuration time.Duration
}

// DefaultLimits returns the limits of a signer that is started without flags.
func DefaultLimits() Limits {
	return Limits{
		DefaultDuration:   720 * time.Hour,
		MinDuration:       time.Hour,
		MaxDuration:       2160 * time.Hour,
		ClusterDomain:     "cluster.local",
		ClusterIPDuration: 24 * time.Hour,
	}
}

// WidestLimits returns limits that allow everything that any signer might allow: all names, any
// duration, cluster IPs and any key algorithm.
func WidestLimits() Limits {
	limits := DefaultLimits()
	limits.MinDuration, limits.MaxDuration = time.Second, math.MaxInt64
	limits.PermitAllNames, limits.PermitClusterIPs, limits.PermitRSA4096 = true, true, true
	return limits
}

// Constraints returns the names that a CA for these limits may sign.
func (l Limits) Constraints() pki.Constraints {
	domains := []string{"svc", l.ClusterDomain}
	for _, r := range l.PermitDNSSuffixes {
		domains = append(domains, r.Suffix)
	}
	return pki.Constraints{PermittedDNS: domains, PermitIPs: l.PermitClusterIPs}.Normalize()
}
