package ca

import (
	"strconv"

	"github.com/servingcert/servingcert/pkg/api"
)

// Trust is what the trust status says: which bundle the targets are to hold, and
// how many do.
type Trust struct {
	BundleHash                          string
	Targets, Holding, Pending, Refusing int
	NotHolding                          string // for people
}

// ParseTrust reads the data of ConfigMap api.TrustStatusName. What is not a number
// counts as one target that does not hold the bundle.
func ParseTrust(data map[string]string) Trust {
	t := Trust{BundleHash: data[api.TrustBundleHash], NotHolding: data[api.TrustNotHolding]}
	for key, into := range map[string]*int{
		api.TrustTargets: &t.Targets, api.TrustHolding: &t.Holding, api.TrustPending: &t.Pending, api.TrustRefusing: &t.Refusing,
	} {
		n, err := strconv.Atoi(data[key])
		if err != nil {
			t.Pending++
		}
		*into += n
	}
	return t
}
