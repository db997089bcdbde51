package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Where the workloads are listed whose pods serve an older certificate: ConfigMap
// ServingStatusName in the rotator's namespace, which the rotator writes. Condition
// ConditionServing names a few of them, for people; this is the whole list.
const (
	ServingStatusName = "servingcert-serving-status"
	// servingStaleKey is the key of the list: a StaleWorkload in JSON in each line.
	servingStaleKey = "stale"
	// servingStaleCountKey is how many StaleWorkloads there are, a decimal number:
	// more than there are lines if they do not all have room.
	servingStaleCountKey = "stale-count"
)

// PodKind is the Kind of a StaleWorkload that is a pod without a controller.
const PodKind = "Pod"

// StaleWorkload is a workload with ready pods that serve an older leaf of a Secret,
// although the time is over that a pod may take to get a new one.
type StaleWorkload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"` // PodKind for a pod without a controller
	Name      string `json:"name"`
	Secret    string `json:"secret"`
	// Leaf is the fingerprint of the leaf that the pods should serve, and Since when
	// it became that, in whole seconds.
	Leaf  string    `json:"leaf"`
	Since time.Time `json:"since"`
	// Pods is how many of its pods there are.
	Pods     int      `json:"pods"`
	OnRotate OnRotate `json:"onRotate"`
	// Services are the names of the Services that select the pods, sorted, if the pods have
	// keys of their own. Then Secret is "(pod)" and Leaf is empty.
	Services []string `json:"services,omitempty"`
	// Held is why a restart that OnRotate allows does not take place now; nil if
	// there is no reason against it, or no restart is allowed.
	Held *RestartHold `json:"held,omitempty"`
}

// RestartHold is why a workload is not restarted now.
type RestartHold struct {
	Reason  string `json:"reason"`  // one word, as metric servingcert_restarts_held has it
	Message string `json:"message"` // the rest of a sentence that begins with "it is not restarted: "
	// Passes: the restart follows by itself. If not, somebody has to do something
	// first.
	Passes bool `json:"passes,omitempty"`
}

// ServingStatus is the data of ConfigMap ServingStatusName.
type ServingStatus struct {
	Stale []StaleWorkload
	// Count is how many stale workloads there are; Stale is partial if it is more
	// than len(Stale).
	Count int
	// Clients are those that may hold an older CA bundle.
	Clients OldClients
}

// NewServingStatus returns the status of stale workloads, of which it names as many
// as a ConfigMap has room for, by namespace, kind, name and Secret.
func NewServingStatus(stale []StaleWorkload) (ServingStatus, error) {
	stale = slices.Clone(stale)
	slices.SortFunc(stale, func(a, b StaleWorkload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Secret, b.Secret), cmp.Compare(a.OnRotate, b.OnRotate))
	})
	shown, err := statusRoom(stale)
	return ServingStatus{Stale: shown, Count: len(stale)}, err
}

// Partial reports whether there are stale workloads that Stale does not name.
func (s ServingStatus) Partial() bool { return s.Count > len(s.Stale) }

// Data returns the data of the ConfigMap.
func (s ServingStatus) Data() (map[string]string, error) {
	list, err := statusLines(s.Stale)
	if err != nil {
		return nil, err
	}
	data := map[string]string{servingStaleKey: list, servingStaleCountKey: strconv.Itoa(s.Count)}
	clients, err := s.Clients.format()
	if err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	if clients != "" {
		data[servingClientsKey] = clients
	}
	return data, nil
}

// ParseServingStatus reads the data of the ConfigMap. An error names the key, the
// line and what is wrong.
func ParseServingStatus(data map[string]string) (ServingStatus, error) {
	stale, count, err := parseStatusLines[StaleWorkload](data, servingStaleKey, servingStaleCountKey, "workload")
	return ServingStatus{Stale: stale, Count: count, Clients: ParseOldClients(data)}, err
}
