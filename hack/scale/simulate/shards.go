package simulate

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
)

// Namespace is a tenant of a cluster.
type Namespace struct {
	Name         string
	Certificates int
}

// Zipf returns n namespaces with that many certificates together: the i-th has 1/i^s of what
// the first has, and each has one at least.
func Zipf(n, certificates int, s float64) []Namespace {
	var sum float64
	for i := range n {
		sum += math.Pow(float64(i+1), -s)
	}
	namespaces := make([]Namespace, n)
	for i := range namespaces {
		share := math.Pow(float64(i+1), -s) / sum
		namespaces[i] = Namespace{fmt.Sprintf("tenant-%05d", i), max(1, int(math.Round(share*float64(certificates))))}
	}
	return namespaces
}

// Rendezvous returns which of k shards owns the namespace: the one with the highest hash of
// both names. One more shard takes from each of the others what it will own, and nothing
// moves between those.
func Rendezvous(namespace string, k int) int {
	owner, highest := 0, uint64(0)
	for shard := range k {
		if h := hash(fmt.Sprintf("%s/%d", namespace, shard)); h > highest {
			owner, highest = shard, h
		}
	}
	return owner
}

// Modulo is the assignment that Rendezvous is compared with: the hash of the name, modulo k.
func Modulo(namespace string, k int) int { return int(hash(namespace) % uint64(k)) }

func hash(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8])
}

// Loads returns how many certificates each of k shards has.
func Loads(namespaces []Namespace, k int, owner func(string, int) int) []int {
	loads := make([]int, k)
	for _, ns := range namespaces {
		loads[owner(ns.Name, k)] += ns.Certificates
	}
	return loads
}

// Moved is what changes its shard when there is one more.
type Moved struct {
	Namespaces, Certificates float64 // the share of all
	BetweenOld               int     // namespaces that go to a shard that was there before
}

// Grow returns what moves from k shards to k+1.
func Grow(namespaces []Namespace, k int, owner func(string, int) int) Moved {
	var m Moved
	all := 0
	for _, ns := range namespaces {
		all += ns.Certificates
		before, after := owner(ns.Name, k), owner(ns.Name, k+1)
		if before == after {
			continue
		}
		m.Namespaces++
		m.Certificates += float64(ns.Certificates)
		if after != k {
			m.BetweenOld++
		}
	}
	m.Namespaces /= float64(len(namespaces))
	m.Certificates /= float64(all)
	return m
}
