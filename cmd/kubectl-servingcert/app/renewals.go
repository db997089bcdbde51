package app

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
)

// renewals is the result of renew.
type renewals struct {
	header
	// RenewAfter was written to each Service: certificates issued before it are renewed.
	RenewAfter time.Time        `json:"renewAfter"`
	Services   []status.Renewal `json:"services"`
	// NotRenewed lists Services whose certificates cannot be renewed.
	NotRenewed []notRenewed `json:"notRenewed,omitempty"`
	// Error is why the command failed.
	Error string `json:"error,omitempty"`
}

// fail records the error of the command, if there is one, also for each Service without a new certificate and an error of its own.
func (r *renewals) fail(err error, waited bool) {
	if err == nil {
		return
	}
	r.Error = err.Error()
	for i := range r.Services {
		if s := &r.Services[i]; s.Error == "" && (s.State == status.RenewalNotRequested || waited && s.State == status.RenewalRequested) {
			s.Error = r.Error
		}
	}
}

type notRenewed struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Why       string `json:"why"`
}

// write writes the result as data, successful or not.
func (f *renewFlags) write(r renewals) error {
	switch {
	case isData(f.output):
		return writeData(f.out, f.output, r)
	case f.output == "name":
		for _, s := range r.Services {
			if s.State != status.RenewalRequested && s.State != status.RenewalDone {
				continue
			}
			if _, err := fmt.Fprintf(f.out, "service/%s\n", s.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
