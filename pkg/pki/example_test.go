package pki_test

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// A CA that may sign for the names of a cluster and for no others, and what its clients trust.
func ExampleNewRoot() {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	root, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, now, now.AddDate(3, 0, 0))
	if err != nil {
		panic(err)
	}
	fmt.Println(pki.PermitsDNS(root, "web.shop.svc"), pki.PermitsDNS(root, "example.com"), root.NotAfter)

	bundle := pki.NewBundle(root, root)
	fmt.Println(len(bundle.Certificates()), "root; after four years:", len(bundle.Unexpired(now.AddDate(4, 0, 0)).Certificates()))
	// Output:
	// true false 2029-01-01 12:00:00 +0000 UTC
	// 1 root; after four years: 0
}
