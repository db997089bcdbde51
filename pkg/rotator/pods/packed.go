package pods

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Packed is Facts as a cache keeps them. They are a third of the size: most of a
// metav1.ObjectMeta is room for what nothing here remembers.
type Packed struct {
	template unique.Handle[Template]
	leaf     unique.Handle[string]
	name     string
	uid      [16]byte // if it is one that the API server made
	version  uint64
	created  int64 // in seconds
	ip       netip.Addr
	flags    flags
	odd      *odd // nil for most pods
}

// flags are what Facts say by yes or no, and what there is in Packed.
type flags uint8

const (
	isHostNetwork flags = 1 << iota
	isOnItsNode
	isReadyPod
	isRunning
	hasUID
	hasVersion
	hasCreated
)

// odd is what most pods do not have, or not in that form.
type odd struct {
	uid      types.UID
	version  string
	deletion *metav1.Time
	crashes  *Crashes
	unready  *Unready
}

// Pack returns the facts in less memory.
func Pack(f *Facts) *Packed {
	p := &Packed{template: f.Template, leaf: f.leaf, name: f.Name, ip: f.IP}
	rest := odd{deletion: f.DeletionTimestamp, crashes: f.Crashes, unready: f.Unready}
	set := func(flag flags, is bool) {
		if is {
			p.flags |= flag
		}
	}
	set(isHostNetwork, f.HostNetwork)
	set(isOnItsNode, f.OnNode)
	set(isReadyPod, f.Ready)
	set(isRunning, f.Running)
	if uid, ok := packUID(f.UID); ok {
		p.uid = uid
		set(hasUID, true)
	} else {
		rest.uid = f.UID
	}
	if version, err := strconv.ParseUint(f.ResourceVersion, 10, 64); err == nil && strconv.FormatUint(version, 10) == f.ResourceVersion {
		p.version = version
		set(hasVersion, true)
	} else {
		rest.version = f.ResourceVersion
	}
	if !f.CreationTimestamp.IsZero() {
		p.created = f.CreationTimestamp.Unix()
		set(hasCreated, true)
	}
	if rest != (odd{}) {
		p.odd = &rest
	}
	return p
}

// Unpack returns what was packed.
func Unpack(p *Packed) *Facts {
	f := &Facts{
		Template: p.template, leaf: p.leaf, IP: p.ip,
		HostNetwork: p.flags&isHostNetwork != 0, OnNode: p.flags&isOnItsNode != 0, Ready: p.flags&isReadyPod != 0, Running: p.flags&isRunning != 0,
	}
	f.Namespace, f.Name = p.template.Value().Namespace, p.name
	if p.odd != nil {
		f.UID, f.ResourceVersion, f.DeletionTimestamp = p.odd.uid, p.odd.version, p.odd.deletion
		f.Crashes, f.Unready = p.odd.crashes, p.odd.unready
	}
	if p.flags&hasUID != 0 {
		f.UID = unpackUID(p.uid)
	}
	if p.flags&hasVersion != 0 {
		f.ResourceVersion = strconv.FormatUint(p.version, 10)
	}
	if p.flags&hasCreated != 0 {
		f.CreationTimestamp = metav1.NewTime(time.Unix(p.created, 0))
	}
	return f
}

// packUID returns the 16 bytes of a UID as the API server makes them; false for any other.
func packUID(uid types.UID) (packed [16]byte, ok bool) {
	digits := strings.ReplaceAll(string(uid), "-", "")
	if len(digits) != hex.EncodedLen(len(packed)) {
		return packed, false
	}
	if _, err := hex.Decode(packed[:], []byte(digits)); err != nil {
		return packed, false
	}
	return packed, unpackUID(packed) == uid
}

func unpackUID(packed [16]byte) types.UID {
	text := make([]byte, 0, 36)
	for i, from := range []int{0, 4, 6, 8, 10} { // the five groups of its digits
		to := []int{4, 6, 8, 10, 16}[i]
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, packed[from:to])
	}
	return types.UID(text)
}
