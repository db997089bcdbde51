package judge

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

const goodBackup = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"servingcert-ca","namespace":"sys"},"data":{"ca.key":"a2V5"}}`

func TestTheBackupIsCompared(t *testing.T) {
	ca := &corev1.Secret{Data: map[string][]byte{"ca.key": []byte("key")}}
	for _, tc := range []struct {
		name          string
		s             UninstallSituation
		verdict, says string
	}{
		{"the same", UninstallSituation{BackupFile: "b", Backup: []byte(goodBackup), CA: ca}, VerdictOK, "b: is Secret sys/servingcert-ca as it is now"},
		{"no CA", UninstallSituation{}, VerdictOK, "does not exist"},
		{"a lost CA", UninstallSituation{Lost: "CALost: it is missing"}, VerdictFailed, "although the CA has signed before: CALost: it is missing"},
		{"a corrupt CA", UninstallSituation{Lost: "CACorrupt: ca.key is no key", BackupFile: "b", Backup: []byte(goodBackup), CA: ca}, VerdictFailed, "Secret sys/servingcert-ca holds no CA that could be kept: CACorrupt: ca.key is no key"},
		{"a newer CA", UninstallSituation{Lost: "CANewerVersion: version 2", BackupFile: "b", Backup: []byte(goodBackup), CA: ca}, VerdictOK, "as it is now"},
		{"none", UninstallSituation{CA: ca}, VerdictFailed, "no backup of the CA"},
		{"an older one", UninstallSituation{BackupFile: "b", Backup: []byte(strings.Replace(goodBackup, "a2V5", "b2xk", 1)), CA: ca}, VerdictFailed, "the CA was changed since"},
		{"another Secret", UninstallSituation{BackupFile: "b", Backup: []byte(strings.Replace(goodBackup, "servingcert-ca", "web-tls", 1)), CA: ca}, VerdictFailed, `is Secret "web-tls"`},
		{"another namespace", UninstallSituation{BackupFile: "b", Backup: []byte(strings.Replace(goodBackup, `"sys"`, `"other"`, 1)), CA: ca}, VerdictFailed, `is of namespace "other", not "sys"`},
		{"no YAML", UninstallSituation{BackupFile: "b", Backup: []byte("{key: [a2V5"), CA: ca}, VerdictFailed, "must be the YAML or JSON of one Secret"},
		{"empty", UninstallSituation{BackupFile: "b", CA: ca}, VerdictFailed, "something without a kind"},
		{"nothing to compare with", UninstallSituation{BackupFile: "b", Backup: []byte(goodBackup)}, VerdictUnknown, "nothing can be compared"},
		{"not allowed", UninstallSituation{BackupFile: "b", Backup: []byte(goodBackup), CAErr: errors.New("forbidden")}, VerdictUnknown, "forbidden"},
	} {
		tc.s.System = "sys"
		got := Uninstall(tc.s).Backup
		assert.Equal(t, tc.verdict, got.Verdict, tc.name)
		assert.Contains(t, got.Text, tc.says, tc.name)
		assert.NotContains(t, got.Text, "a2V5", "the key is in no text: %s", tc.name)
	}
}

func TestWhoAsksTheWebhookGoesFirst(t *testing.T) {
	s := UninstallSituation{System: "sys", Webhook: true, Bundles: []string{"shop"}, Services: []Service{
		{Namespace: "shop", Name: "web", Secret: "web-tls"}, {Namespace: "shop", Name: "keys", PodKeys: true}, {Namespace: "shop", Name: "plain"},
	}}
	got := Uninstall(s)
	assert.Equal(t, "kubectl delete mutatingwebhookconfiguration servingcert", got.Delete[0])
	assert.Contains(t, got.Delete[len(got.Delete)-1], "kubectl delete namespace sys")
	assert.Contains(t, got.Works[0], "2 Services in 1 namespace")
	assert.Contains(t, got.Stops[2], "1 Service whose pods make their keys")
	assert.Contains(t, got.Stays[1].What, "in 1 namespace")

	s.Webhook = false
	assert.NotContains(t, Uninstall(s).Delete[0], "mutatingwebhookconfiguration", "it is gone already")
}
