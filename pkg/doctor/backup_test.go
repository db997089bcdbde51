package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

const goodBackup = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"servingcert-ca","namespace":"sys"},"data":{"ca.key":"a2V5"}}`

// backup returns one that is current.
func backup() *Backup {
	return &Backup{File: "b", Content: []byte(goodBackup), System: "sys", CA: &corev1.Secret{Data: map[string][]byte{"ca.key": []byte("key")}}}
}

func TestTheBackupIsCompared(t *testing.T) {
	ca := &corev1.Secret{Data: map[string][]byte{"ca.key": []byte("key")}}
	for name, tc := range map[string]struct {
		backup string
		ca     *corev1.Secret
		says   string
	}{
		"the same":                {goodBackup, ca, ""},
		"without a namespace":     {strings.Replace(goodBackup, `,"namespace":"sys"`, "", 1), ca, ""},
		"an older one":            {strings.Replace(goodBackup, "a2V5", "b2xk", 1), ca, "is not Secret sys/servingcert-ca as it is now: the CA was changed since"},
		"another Secret":          {strings.Replace(goodBackup, "servingcert-ca", "web-tls", 1), ca, `is Secret "web-tls"`},
		"another namespace":       {strings.Replace(goodBackup, `"sys"`, `"other"`, 1), ca, `is of namespace "other", not "sys"`},
		"no YAML":                 {"{key: [a2V5", ca, "must be the YAML or JSON of one Secret"},
		"empty":                   {"", ca, "something without a kind"},
		"nothing to compare with": {goodBackup, nil, "does not exist, so that nothing can be compared"},
	} {
		report := Facts{Backup: &Backup{File: "b", Content: []byte(tc.backup), System: "sys", CA: tc.ca}}.Examine(noon)
		got, made := backupOf(report)
		assert.True(t, made, name)
		assert.NotContains(t, got.Message, "a2V5", "the key is in no text: %s", name)
		if tc.says == "" {
			assert.Equal(t, OK, got.Level, name)
			continue
		}
		assert.Equal(t, Error, got.Level, name)
		assert.Contains(t, got.Message, "b: ", name)
		assert.Contains(t, got.Message, tc.says, name)
	}
	_, made := backupOf(Facts{Authority: &State{}}.Examine(noon))
	assert.False(t, made, "nobody asked")
}

// backupOf returns the finding about the backup, and whether there is one.
func backupOf(r Report) (Finding, bool) {
	for _, f := range r.Findings {
		if f.ID == CABackup {
			return f, true
		}
	}
	return Finding{}, false
}
