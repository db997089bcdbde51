package controlplane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// AuditEvent is a request in kube-apiserver's audit log (audit.k8s.io/v1), with the
// metadata that concerns permissions.
type AuditEvent struct {
	Stage      string      `json:"stage"` // ResponseStarted of a watch, otherwise ResponseComplete
	RequestURI string      `json:"requestURI"`
	Verb       string      `json:"verb"`
	User       AuditUser   `json:"user"`
	Object     AuditObject `json:"objectRef"`
	Status     AuditStatus `json:"responseStatus"`
}

// AuditUser is the sender of a request.
type AuditUser struct {
	Username string `json:"username"`
}

// AuditObject is the object of a request. Name is empty for a list without
// metadata.name in its field selector, and for a create that is not an apply.
type AuditObject struct {
	Group       string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// AuditStatus is the response to a request.
type AuditStatus struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// AuditEvents returns the answered requests of Options.AuditUsers, in the order of their
// answers. A watch is listed as soon as it has started.
func (cp *ControlPlane) AuditEvents() ([]AuditEvent, error) {
	if len(cp.opts.AuditUsers) == 0 {
		return nil, errors.New("audit log: Options.AuditUsers is empty: no request is logged")
	}
	data, err := os.ReadFile(cp.auditLog())
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	// kube-apiserver has not finished writing the last line if it has no end.
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	var events []AuditEvent
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var event AuditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("audit log: event %d: %w", len(events)+1, err)
		}
		events = append(events, event)
	}
	return events, lines.Err()
}

func (cp *ControlPlane) auditLog() string { return cp.path("logs", "audit.log") }

// auditArgs returns kube-apiserver's flags for the audit log, if it is enabled.
func (cp *ControlPlane) auditArgs() ([]string, error) {
	if len(cp.opts.AuditUsers) == 0 {
		return nil, nil
	}
	policy, err := yaml.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules": []map[string]any{
			{"level": "Metadata", "users": cp.opts.AuditUsers, "omitManagedFields": true},
			{"level": "None"},
		},
	})
	if err != nil {
		return nil, err
	}
	file := cp.path("pki", "audit-policy.yaml")
	if err := os.WriteFile(file, policy, 0o600); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + file, "--audit-log-path=" + cp.auditLog(), "--audit-log-format=json", "--audit-log-mode=blocking"}, nil
}
