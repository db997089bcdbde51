package pods

import (
	"net/netip"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// What is packed comes back as it was, whoever made the UIDs and versions.
func TestPackedPropertyNothingIsLost(t *testing.T) {
	digits := rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	uids := rapid.OneOf(digits, rapid.SampledFrom([]string{"", "uid-of-web", "0B8A2C55-3b8c-4b58-9f2e-6f1d7c1f0a77", "0b8a2c553b8c4b589f2e6f1d7c1f0a77", "0b8a2c55-3b8c-4b58-9f2e6-f1d7c1f0a77", "-b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77x"}))
	versions := rapid.OneOf(rapid.StringMatching(`[1-9][0-9]{0,18}`), rapid.SampledFrom([]string{"", "0", "007", "18446744073709551615", "18446744073709551616", "x", "+1"}))
	now := metav1.NewTime(time.Unix(1_777_000_000, 0))
	rapid.Check(t, func(t *rapid.T) {
		yes := rapid.Bool()
		f := &Facts{
			Template: unique.Make(Template{Namespace: "shop", mounts: rapid.SampledFrom([]string{"", "web-tls"}).Draw(t, "mounts")}),
			leaf:     unique.Make(rapid.SampledFrom([]string{"", "web-tls=abc"}).Draw(t, "leaf")),
			IP:       rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}).Draw(t, "ip"),

			HostNetwork: yes.Draw(t, "host network"), OnNode: yes.Draw(t, "on node"), Ready: yes.Draw(t, "ready"), Running: yes.Draw(t, "running"),
		}
		f.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "web-a", UID: types.UID(uids.Draw(t, "uid")), ResourceVersion: versions.Draw(t, "version")}
		if yes.Draw(t, "no leaf") {
			f.leaf = unique.Handle[string]{}
		}
		if yes.Draw(t, "created") {
			f.CreationTimestamp = now
		}
		if yes.Draw(t, "deleted") {
			f.DeletionTimestamp = &now
		}
		if yes.Draw(t, "crashes") {
			f.Crashes = &Crashes{}
		}
		if yes.Draw(t, "unready") {
			f.Unready = &Unready{}
		}
		assert.Equal(t, f, Unpack(Pack(f)))
	})
}

func TestMostPodsAreNotOdd(t *testing.T) {
	f := &Facts{Template: unique.Make(Template{Namespace: "shop"})}
	f.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "web-a", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", ResourceVersion: "123456"}
	assert.Nil(t, Pack(f).odd)
}

func BenchmarkUnpack(b *testing.B) {
	f := &Facts{Template: unique.Make(Template{Namespace: "shop"}), IP: netip.MustParseAddr("10.0.0.1"), Ready: true}
	f.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "web-a", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", ResourceVersion: "123456"}
	p := Pack(f)
	b.ReportAllocs()
	for b.Loop() {
		_ = Unpack(p)
	}
}
