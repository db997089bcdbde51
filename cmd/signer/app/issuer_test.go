package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/certmanager"
)

func TestIssuerFlags(t *testing.T) {
	parse := func(line string) (*issuerFlags, error) {
		f, remote, fs := &issuerFlags{}, &remoteFlags{}, pflag.NewFlagSet("signer", pflag.ContinueOnError)
		instance := fs.String("instance", api.DefaultInstance, "")
		f.register(fs)
		remote.register(fs)
		require.NoError(t, fs.Parse(strings.Fields(line)))
		return f, f.validate(remote, *instance)
	}
	f, err := parse("")
	require.NoError(t, err)
	assert.False(t, f.enabled())
	f, err = parse("--ca-issuer=Issuer/step.certmanager.step.sm --ca-issuer-roots=company-roots")
	require.NoError(t, err)
	assert.True(t, f.enabled())
	assert.Equal(t, certmanager.Issuer{Kind: "Issuer", Name: "step", Group: "certmanager.step.sm"}, f.issuer)
	longest := strings.Repeat("a", certmanager.MaxInstance)
	assert.Empty(t, validation.IsValidLabelValue(certmanager.Labels(longest)[api.LabelManagedBy]))
	_, err = parse("--ca-issuer=ClusterIssuer/vault --instance=" + longest)
	require.NoError(t, err)
	_, err = parse("--instance=" + longest + "a")
	require.NoError(t, err, "of no issuer")
	for line, want := range map[string]string{
		"--ca-issuer=ClusterIssuer/vault --instance=" + longest + "a": `a": must have at most 55 characters with --ca-issuer`,
		"--ca-issuer=vault": `--ca-issuer: "vault": must be KIND/NAME`,
		"--ca-issuer=ClusterIssuer/vault --cfssl-url=https://a": "--ca-issuer: cannot be used with --cfssl-url",
		"--ca-issuer=":            `--ca-issuer: "": must be KIND/NAME`,
		"--ca-issuer-roots=roots": "--ca-issuer-roots: requires --ca-issuer",
		"--ca-issuer=ClusterIssuer/vault --ca-issuer-roots=Bad_One": `--ca-issuer-roots: "Bad_One": must be the name of a ConfigMap`,
	} {
		_, err := parse(line)
		assert.ErrorContains(t, err, want, line)
	}
}
