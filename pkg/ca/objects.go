package ca

import "github.com/servingcert/servingcert/pkg/api"

// Objects are the names of the objects of one CA, all in the signer's namespace.
type Objects struct {
	// CA is which of the two CAs it is: the value of label ca of metrics.
	CA string
	// Secret holds the CA, and ConfigMap Status what is public of it.
	Secret, Status string
	// Interim, Import and ExtraRoots are those of the same names in [Situation]; empty: the CA has none.
	Interim, Import, ExtraRoots string
	// Trust names what shows whether the targets hold the bundle.
	Trust string
	// Rotate is the command for people.
	Rotate string
}

// Serving returns the objects of the CA that signs serving certificates.
func Serving() Objects {
	return Objects{
		CA:     "serving",
		Secret: api.CASecretName, Status: api.CAStatusName,
		Interim: api.CAInterimName, Import: api.CAImportName, ExtraRoots: api.ExtraRootsName,
		Trust: "ConfigMap " + api.TrustStatusName, Rotate: "kubectl servingcert rotate-ca",
	}
}

// Clients returns the objects of the CA that signs the certificates of clients.
func Clients() Objects {
	return Objects{
		CA:     "client",
		Secret: api.ClientCASecretName, Status: api.ClientCAStatusName,
		Trust: "ClusterTrustBundle " + api.ClientBundleName, Rotate: "kubectl servingcert rotate-ca --clients",
	}
}

// Objects returns the names of the objects of the CA. The trust domain decides which CA it is.
func (p Parameters) Objects() Objects {
	if p.forClients() {
		return Clients()
	}
	return Serving()
}

// forClients reports whether the CA signs certificates of clients.
func (p Parameters) forClients() bool { return p.Constraints.TrustDomain != "" }
