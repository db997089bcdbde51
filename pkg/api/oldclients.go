package api

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// servingClientsKey is the key of ConfigMap ServingStatusName with the OldClients.
const servingClientsKey = "clients"

// oldClientsVersion is the version of the value's format.
const oldClientsVersion = 1

const (
	// MaxOldClientGenerations bounds for how many generations of the CA old clients are counted: as
	// many as there may be roots in a bundle.
	MaxOldClientGenerations = 8
	// MaxOldClientsNamed is how many workloads are named of each.
	MaxOldClientsNamed = 10
	// maxOldClientName bounds each name: that of a namespace, of a kind and of an object.
	maxOldClientName = 3*validation.DNS1123SubdomainMaxLength + 2
)

// OldClients are, by generation of the CA, the pods that may hold a CA bundle without its root: they
// mount the bundle, and were started before it had that root everywhere. The rotator counts them,
// as it alone sees pods.
type OldClients []OldClientsOf

// OldClientsOf are the pods that may not hold the root of one generation.
type OldClientsOf struct {
	Generation int    `json:"generation"`
	Root       string `json:"root"` // fingerprint, as in CAGenerationRecord
	// Since is from when on a container that starts is known to read the root, in whole seconds.
	Since     time.Time `json:"since"`
	Pods      int       `json:"pods"`
	Workloads int       `json:"workloads"`
	// First names the first of the workloads, "NAMESPACE/KIND NAME", sorted, at most
	// MaxOldClientsNamed.
	First []string `json:"first,omitempty"`
}

// String says who they are, as the end of a sentence.
func (o OldClientsOf) String() string {
	named := strings.Join(o.First, ", ")
	if o.Workloads > len(o.First) {
		named += ", …"
	}
	return named
}

// Of returns those of the generation with that root, false if they were not counted yet.
func (o OldClients) Of(generation int, root string) (OldClientsOf, bool) {
	i := slices.IndexFunc(o, func(of OldClientsOf) bool { return of.Generation == generation && of.Root == root })
	if i < 0 {
		return OldClientsOf{}, false
	}
	return o[i], true
}

type oldClientsValue struct {
	Version     int        `json:"v"`
	Generations OldClients `json:"generations"`
}

// format returns the value of servingClientsKey, "" for none.
func (o OldClients) format() (string, error) {
	if len(o) == 0 {
		return "", nil
	}
	text, err := json.Marshal(oldClientsValue{oldClientsVersion, o})
	return string(text), err
}

// ParseOldClients returns what the data of ConfigMap ServingStatusName says of clients. What is
// malformed, of another version, or larger than what the rotator writes says nothing.
func ParseOldClients(data map[string]string) OldClients {
	var v oldClientsValue
	text := data[servingClientsKey]
	if len(text) > MaxOldClientGenerations*(MaxOldClientsNamed+1)*maxOldClientName || json.Unmarshal([]byte(text), &v) != nil || v.Version != oldClientsVersion {
		return nil
	}
	wrong := func(o OldClientsOf) bool {
		return o.Pods < 0 || o.Workloads < 0 || o.Pods < o.Workloads || len(o.First) > o.Workloads || len(o.First) > MaxOldClientsNamed || !IsFingerprint(o.Root)
	}
	if len(v.Generations) > MaxOldClientGenerations || slices.ContainsFunc(v.Generations, wrong) {
		return nil
	}
	for _, o := range v.Generations {
		for i, name := range o.First {
			o.First[i] = Shorten(strings.ToValidUTF8(name, "?"), maxOldClientName)
		}
	}
	return v.Generations
}
