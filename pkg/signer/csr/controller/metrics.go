package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/signer/requests"
)

func newMetrics(r prometheus.Registerer) (*requests.Metrics, error) {
	return requests.NewMetrics(r, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "servingcert_csr_issued_total",
		Help: "Certificates issued for CertificateSigningRequests.",
	}), prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "servingcert_csr_failures_total",
		Help: "CertificateSigningRequests that were denied or that failed after approval, and failed attempts to sign one, by reason.",
	}, []string{requests.LabelReason}))
}
