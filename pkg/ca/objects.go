package ca

import (
	"cmp"

	"github.com/servingcert/servingcert/pkg/api"
)

// Objects are the names of the objects of one CA, all in the signer's namespace.
type Objects struct {
	// Secret holds the CA, and ConfigMap Status what is public of it.
	Secret, Status string
	// Interim, Import and ExtraRoots are those of the same names in [Situation]; empty: the CA has none.
	Interim, Import, ExtraRoots string
	// Trust names what shows whether the targets hold the bundle.
	Trust string
	// Rotate is the command for people.
	Rotate string
}

// Serving returns the objects of the CA that signs serving certificates, which is the default.
func Serving() Objects {
	return Objects{
		Secret: api.CASecretName, Status: api.CAStatusName,
		Interim: api.CAInterimName, Import: api.CAImportName, ExtraRoots: api.ExtraRootsName,
		Trust: "ConfigMap " + api.TrustStatusName, Rotate: "kubectl servingcert rotate-ca",
	}
}

// Clients returns the objects of the CA that signs the certificates of clients.
func Clients() Objects {
	return Objects{
		Secret: api.ClientCASecretName, Status: api.ClientCAStatusName,
		Trust: "ClusterTrustBundle " + api.ClientBundleName, Rotate: "kubectl servingcert rotate-ca --clients",
	}
}

// objects returns the names for messages.
func (p Parameters) objects() Objects { return cmp.Or(p.Objects, Serving()) }
