package ca

import "github.com/servingcert/servingcert/pkg/api"

// ParseTrust reads the data of ConfigMap api.TrustStatusName. One that is damaged
// counts as a target that does not hold the bundle.
func ParseTrust(data map[string]string) api.TrustStatus {
	s, err := api.ParseTrustStatus(data)
	if err != nil {
		s.Pending++
	}
	return s
}
