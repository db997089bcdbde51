package doctor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// Backup is a file that is to hold the Secret of the CA as it is in the cluster.
type Backup struct {
	File    string // its name
	Content []byte
	// System is the namespace of servingcert.
	System string
	// CA is the Secret in the cluster; nil if there is none.
	CA *corev1.Secret
}

func (b *Backup) judge() []Finding {
	if wrong := b.wrong(); wrong != "" {
		return []Finding{found(CABackup, "", "%s: %s", b.File, wrong)}
	}
	return nil
}

// wrong never returns content of the file or of the Secret: that is a key.
func (b *Backup) wrong() string {
	secret := fmt.Sprintf("Secret %s/%s", b.System, api.CASecretName)
	kept, err := parseBackup(b.Content)
	switch {
	case err != nil:
		return fmt.Sprintf("is not a backup of %s: %v", secret, err)
	case b.CA == nil:
		return secret + " does not exist, so that nothing can be compared with it"
	case kept.Namespace != "" && kept.Namespace != b.System:
		return fmt.Sprintf("is of namespace %q, not %q", kept.Namespace, b.System)
	case !maps.EqualFunc(kept.Data, b.CA.Data, bytes.Equal):
		return fmt.Sprintf("is not %s as it is now: the CA was changed since", secret)
	}
	return ""
}

func parseBackup(content []byte) (corev1.Secret, error) {
	var secret corev1.Secret
	if yaml.Unmarshal(content, &secret) != nil {
		return secret, errors.New("must be the YAML or JSON of one Secret")
	}
	if secret.Kind != "Secret" || secret.Name != api.CASecretName {
		return secret, fmt.Errorf("is %s %q", cmp.Or(secret.Kind, "something without a kind:"), secret.Name)
	}
	return secret, nil
}
