package harness

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// CreateLease creates a Lease without a holder. A manager of controller-runtime that has the rights of a
// process cannot: the process creates its Lease by server-side apply.
func CreateLease(ctx context.Context, c client.Client, name string) error {
	return c.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: name}})
}
