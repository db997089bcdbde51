package status

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// MigrationStep is a step of "migrate service-ca".
type MigrationStep string

// signingKey is the Secret with service-ca's CA.
const signingKey = api.OpenShiftNamespace + "/" + api.OpenShiftSigningKey

// The steps, in their order; "": none.
const (
	MigrationImport MigrationStep = "import" // write the Secret from which the signer imports the CA
	MigrationFollow MigrationStep = "follow" // wait until the imported CA signs
	MigrationRotate MigrationStep = "rotate" // replace it with a new CA
	MigrationAdopt  MigrationStep = "adopt"  // label Secrets whose CA cannot be imported
)

// MigrationFacts is the input of DecideMigration.
type MigrationFacts struct {
	Now       time.Time
	Namespace string // of servingcert
	// Signing is the data of service-ca's Secret; nil: it does not exist.
	Signing map[string][]byte
	// Running lists the Deployments of service-ca that have replicas.
	Running []string
	// Status is nil if servingcert has no CA yet.
	Status *CA
	// Import is the data of Secret api.CAImportName; nil: it does not exist.
	Import map[string][]byte
	// WithoutCompat lists the Deployments of servingcert without --openshift-compat.
	WithoutCompat []string
	Secrets       []ServiceCASecret
}

// Migration is the state of a migration from service-ca.
type Migration struct {
	Found []string // the state of service-ca
	// InTheWay lists the problems that a person has to resolve.
	InTheWay []string
	// Step is the next step of the command, and Text describes it.
	Step MigrationStep
	Text string
	// Next lists the next manual steps; none while the command has a Step.
	Next []string
	// Adopt lists the Secrets of MigrationAdopt.
	Adopt []ServiceCASecret

	Key  SigningKey // of MigrationImport
	Root string     // fingerprint of the CA to follow
}

// DecideMigration returns the next step, and what blocks it.
func DecideMigration(f MigrationFacts) Migration {
	var m Migration
	key, err := ParseSigningKey(f.Signing)
	m.Found = append(m.Found, foundServiceCA(f.Running))
	switch {
	case err == nil:
		m.Key, m.Root = key, pki.Fingerprint(key.Root)
		m.Found = append(m.Found, foundCA(key, f.Now))
	case f.Signing == nil && f.imported() == nil:
		m.InTheWay = append(m.InTheWay, "Secret "+signingKey+" does not exist: there is no service-ca to take over from")
		return m
	case f.imported() == nil:
		m.InTheWay = append(m.InTheWay, fmt.Sprintf("Secret %s: %v. Restore it, or let service-ca create another CA", signingKey, err))
		return m
	}
	m.Found = append(m.Found, foundSecrets(f.Secrets)...)
	for _, s := range f.Secrets {
		if s.Why != "" {
			m.InTheWay = append(m.InTheWay, fmt.Sprintf("Secret %s/%s of Service %s: %s", s.Namespace, s.Name, s.Service, s.Why))
		}
	}
	unknown := err == nil && key.Ended(f.Now)
	switch {
	case err != nil, unknown:
	case f.sameName(key.Root):
		m.Found = append(m.Found, "its CA is not the imported one, but has the same subject, so it cannot be imported. servingcert replaces its certificates")
		unknown = true
	case !m.decideImport(f):
		return m
	}
	m.decideRest(f, unknown)
	return m
}

// imported returns the last imported generation, or nil.
func (f MigrationFacts) imported() *api.CAGenerationRecord {
	if f.Status == nil {
		return nil
	}
	for _, g := range slices.Backward(f.Status.facts.Generations) {
		if g.Origin == api.OriginImported {
			return &g
		}
	}
	return nil
}

// decideImport decides about a valid CA of service-ca. It reports whether a generation of
// servingcert has succeeded it.
func (m *Migration) decideImport(f MigrationFacts) (succeeded bool) {
	if f.Status == nil && f.sameImport(m.Key) {
		m.Next = []string{"Install servingcert in namespace " + f.Namespace + ", without --openshift-compat. Its signer imports the CA as its first generation. Then run this command again"}
		return false
	}
	switch known := f.generation(m.Root); {
	case known != nil && known.SignsSince.IsZero():
		m.Step, m.Text = MigrationFollow, fmt.Sprintf("wait until the imported CA, generation %d, signs", known.Number)
	case known != nil && known.Number == f.Status.Generation:
		m.Step, m.Text = MigrationRotate, fmt.Sprintf("rotate the CA: a new CA replaces service-ca's, generation %d, which cross-signs it", known.Number)
	case known != nil:
		return true
	case f.Import != nil && !f.sameImport(m.Key):
		m.InTheWay = append(m.InTheWay, fmt.Sprintf("Secret %s/%s holds another CA: delete it first. Nothing is lost: Secret %s keeps the CA that was imported from it", f.Namespace, api.CAImportName, api.CASecretName))
	case f.Import != nil:
		m.Step, m.Text = MigrationFollow, "wait until the signer has imported the CA from Secret "+api.CAImportName
	default:
		m.Step, m.Text = MigrationImport, m.importText(f)
	}
	return false
}

// sameName reports whether the root belongs to no generation, but has the subject of a
// generation's root in the bundle.
func (f MigrationFacts) sameName(root *x509.Certificate) bool {
	if f.Status == nil || f.generation(pki.Fingerprint(root)) != nil {
		return false
	}
	bundle, err := pki.ParseBundle([]byte(f.Status.facts.Bundle))
	return err == nil && slices.ContainsFunc(bundle.Certificates(), func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, root.RawSubject) && f.generation(pki.Fingerprint(c)) != nil
	})
}

// generation returns the generation whose root has the fingerprint, or nil.
func (f MigrationFacts) generation(root string) *api.CAGenerationRecord {
	if f.Status == nil {
		return nil
	}
	for _, g := range f.Status.facts.Generations {
		if g.Root == root {
			return &g
		}
	}
	return nil
}

func (m *Migration) importText(f MigrationFacts) string {
	text := fmt.Sprintf("import the CA: write its certificate and key to Secret %s/%s", f.Namespace, api.CAImportName)
	if len(m.Key.Former) > 0 {
		text += fmt.Sprintf(", and the certificates of its previous CA to ConfigMap %s", api.ExtraRootsName)
	}
	if m.Key.Cross != nil && f.Status != nil {
		m.InTheWay = append(m.InTheWay, "service-ca has rotated its CA, and servingcert already has one: clients that hold only the root from before that rotation cannot verify certificates that are issued after the import. "+
			"They can if the CA is imported before the signer starts for the first time")
	}
	return text
}

func (f MigrationFacts) sameImport(key SigningKey) bool {
	return f.Import != nil && maps.EqualFunc(f.Import, key.Import(), bytes.Equal)
}

// decideRest decides the steps after the import. unknown: service-ca's current CA was not
// imported.
func (m *Migration) decideRest(f MigrationFacts, unknown bool) {
	for _, s := range f.Secrets {
		if s.State == SecretFormer || unknown && s.State == SecretCurrent {
			m.Adopt = append(m.Adopt, s)
		}
	}
	ours := len(slices.DeleteFunc(slices.Clone(f.Secrets), func(s ServiceCASecret) bool { return s.State != SecretOurs }))
	switch {
	case f.Status == nil:
		m.Next = []string{"Install servingcert in namespace " + f.Namespace + ", without --openshift-compat: service-ca's CA cannot be imported. Then run this command again"}
	case len(f.Running) > 0:
		for _, d := range slices.Backward(f.Running) { // the operator first: it restarts the other
			namespace, name, _ := strings.Cut(d, "/")
			m.Next = append(m.Next, "Stop service-ca: "+api.CommandText([]string{namespace, name}, "kubectl", "-n", namespace, "scale", "deployment", name, "--replicas=0"))
		}
		m.Next = append(m.Next, "Set --openshift-compat on the signer, the rotators and the webhook (openshiftCompat of the chart). Then run this command again")
	case len(f.WithoutCompat) > 0:
		m.Next = []string{"Set --openshift-compat (openshiftCompat of the chart) on " + strings.Join(f.WithoutCompat, ", ") + ". Then run this command again"}
	case len(m.Adopt) > 0:
		m.Step = MigrationAdopt
		m.Text = fmt.Sprintf("put label %s on %s whose CA cannot be imported: they are reissued at once", api.LabelManagedBy, api.Count(len(m.Adopt), "Secret"))
	case ours < len(f.Secrets)-len(m.InTheWay):
		m.Next = []string{fmt.Sprintf("Wait: servingcert manages %d of %s; each is reissued at its own time within --ca-reissue-window", ours, api.Count(len(f.Secrets), "Secret"))}
	default:
		m.Next = []string{fmt.Sprintf("Done: servingcert manages %d of %s. Delete Secret %s/%s; keep %s while you may want to go back",
			ours, api.Count(len(f.Secrets), "Secret"), f.Namespace, api.CAImportName, signingKey)}
	}
}

func foundServiceCA(running []string) string {
	if len(running) == 0 {
		return "service-ca is not running"
	}
	return "service-ca is running: Deployment " + strings.Join(running, ", ")
}

func foundCA(key SigningKey, now time.Time) string {
	text := fmt.Sprintf("its CA: %s, until %s", api.Escape(key.Root.Subject.CommonName), key.Root.NotAfter.Format(time.RFC3339))
	switch {
	case key.Ended(now):
		text += ": it has expired, or expires within " + endsSoon.String() + ". It cannot be imported: servingcert replaces its certificates"
	case key.Cross != nil:
		text += "; it was rotated"
	}
	return text
}

func foundSecrets(secrets []ServiceCASecret) []string {
	count := map[SecretState]int{}
	for _, s := range secrets {
		count[s.State]++
	}
	text := api.Count(len(secrets), "Secret") + " requested with OpenShift's annotations"
	for _, state := range []SecretState{SecretCurrent, SecretFormer, SecretChanged, SecretForeign, SecretMissing, SecretOurs} {
		if n := count[state]; n > 0 {
			text += fmt.Sprintf("; %d %s", n, secretStates[state])
		}
	}
	return []string{text}
}

var secretStates = map[SecretState]string{
	SecretCurrent: "signed by service-ca's CA", SecretFormer: "signed by its previous CA", SecretChanged: "changed by another client",
	SecretForeign: "not created by service-ca", SecretMissing: "missing", SecretOurs: "managed by servingcert",
}
