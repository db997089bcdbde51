package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Where the nodes are listed whose kubelet does not serve the certificate that it was issued: ConfigMap
// KubeletStatusName in the rotator's namespace, which a rotator with --verify-kubelets writes.
const (
	KubeletStatusName = "servingcert-kubelet-status"
	// kubeletsKey is the key of the list: a KubeletState in JSON in each line. kubeletsCountKey is how
	// many there are, and kubeletsNodesKey of how many nodes.
	kubeletsKey      = "kubelets"
	kubeletsCountKey = "kubelets-count"
	kubeletsNodesKey = "nodes"
	// kubeletsReportedKey is when the report was known to be true, to KubeletReportEvery.
	kubeletsReportedKey = "reported"
)

// KubeletReportEvery is how often a report is written at least, so that an old one is known to be
// nobody's any more.
const KubeletReportEvery = time.Hour

// KubeletCurrent is the State of a kubelet that needs no attention.
const KubeletCurrent = "current"

// KubeletState is what the kubelet of a node serves.
type KubeletState struct {
	Node  string `json:"node"`
	State string `json:"state"` // as metric servingcert_kubelets has it
	// Message is a sentence that says why the State is not KubeletCurrent.
	Message string `json:"message,omitempty"`
	// Since is when the State was seen first, in whole seconds.
	Since time.Time `json:"since"`
}

// KubeletStatus is the data of ConfigMap KubeletStatusName.
type KubeletStatus struct {
	// Nodes is how many were dialled, and Count how many of them need attention; Kubelets are those, by
	// node, as many as have room.
	Nodes    int            `json:"nodes"`
	Count    int            `json:"count"`
	Kubelets []KubeletState `json:"kubelets,omitempty"`
	// Reported is when that was true; zero in a report of a version that did not say it.
	Reported time.Time `json:"reported"`
}

// Stale reports whether nobody keeps the report any more: Reported is rounded down, and the next
// report may be late.
func (s KubeletStatus) Stale(now time.Time) bool { return now.Sub(s.Reported) > 3*KubeletReportEvery }

// NewKubeletStatus returns the status of all nodes.
func NewKubeletStatus(all []KubeletState, now time.Time) KubeletStatus {
	s := KubeletStatus{Nodes: len(all), Reported: now.UTC().Truncate(KubeletReportEvery), Kubelets: slices.DeleteFunc(slices.Clone(all), func(k KubeletState) bool { return k.State == KubeletCurrent })}
	slices.SortFunc(s.Kubelets, func(a, b KubeletState) int { return cmp.Compare(a.Node, b.Node) })
	s.Count = len(s.Kubelets)
	return s
}

// Data returns the data of the ConfigMap.
func (s KubeletStatus) Data() (map[string]string, error) {
	shown, err := statusRoom(s.Kubelets)
	if err != nil {
		return nil, err
	}
	list, err := statusLines(shown)
	return map[string]string{kubeletsKey: list, kubeletsCountKey: strconv.Itoa(s.Count), kubeletsNodesKey: strconv.Itoa(s.Nodes), kubeletsReportedKey: s.Reported.Format(time.RFC3339)}, err
}

// ParseKubeletStatus reads the data of the ConfigMap. An error names the key, the line and what is wrong.
func ParseKubeletStatus(data map[string]string) (s KubeletStatus, err error) {
	if s.Nodes, err = strconv.Atoi(data[kubeletsNodesKey]); err != nil || s.Nodes < 0 {
		return KubeletStatus{}, fmt.Errorf("%s: %q: must be a number that is not negative", kubeletsNodesKey, data[kubeletsNodesKey])
	}
	if reported := data[kubeletsReportedKey]; reported != "" {
		if s.Reported, err = time.Parse(time.RFC3339, reported); err != nil {
			return KubeletStatus{}, fmt.Errorf("%s: %q: must be an RFC 3339 time", kubeletsReportedKey, reported)
		}
	}
	s.Kubelets, s.Count, err = parseStatusLines[KubeletState](data, kubeletsKey, kubeletsCountKey, "kubelet")
	return s, err
}
