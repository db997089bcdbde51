package status

// RenewalState is the state of a request for a new certificate.
type RenewalState string

// The states of a renewal.
const (
	RenewalNotRequested RenewalState = "notRequested" // the request was not written
	RenewalRequested    RenewalState = "requested"
	RenewalDone         RenewalState = "renewed"
	RenewalDeleted      RenewalState = "deleted" // the Service was deleted meanwhile
)

// Renewal is the renewal of the certificate of one Service, in the form of -o json.
type Renewal struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Secret    string       `json:"secret"`
	State     RenewalState `json:"state"`
	// LeafBefore and Leaf are the SHA-256 of the old and of the new certificate, in hex.
	LeafBefore string `json:"leafBefore,omitempty"`
	Leaf       string `json:"leaf,omitempty"`
	// Ready, Reason and Message are from condition Ready, during the wait.
	Ready   string `json:"ready,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Error is why it has no new certificate, if the command failed.
	Error string `json:"error,omitempty"`
}

// RenewalOf returns the renewal of a Service's certificate, before it is requested. If condition Ready
// does not name the certificate, as after a failure, condition Serving may.
func RenewalOf(s Service) Renewal {
	r := Renewal{Namespace: s.Namespace, Name: s.Name, Secret: s.Secret, State: RenewalNotRequested, LeafBefore: s.Leaf}
	if r.LeafBefore == "" && s.Serving != nil {
		r.LeafBefore = s.Serving.Leaf
	}
	return r
}

// String returns NAMESPACE/NAME of the Service.
func (r Renewal) String() string { return r.Namespace + "/" + r.Name }

// Observe returns the renewal with the state of the Service. Without a certificate in its
// status, the renewal is not done.
func (r Renewal) Observe(s Service) Renewal {
	if s.Leaf != "" && s.Leaf != r.LeafBefore {
		r.State, r.Leaf = RenewalDone, s.Leaf
		r.Ready, r.Reason, r.Message = "", "", ""
		return r
	}
	r.Ready, r.Reason, r.Message = s.Ready, s.Reason, s.Message
	return r
}
