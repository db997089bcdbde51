package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/servingcert/servingcert/hack/controlplane/certs"
)

// tokenLifetime is the lifetime of ServiceAccount tokens in seconds: a day, as nothing
// renews them.
const tokenLifetime int64 = 24 * 60 * 60

// ServiceAccountConfig returns a client configuration of a ServiceAccount, which must exist,
// without client-side rate limit. Its token is a new one of the TokenRequest API, valid for a day.
func (cp *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(cp.AdminConfig())
	if err != nil {
		return nil, err
	}
	lifetime := tokenLifetime
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	cfg := cp.config()
	cfg.BearerToken = token.Status.Token
	return cfg, nil
}

// UserConfig returns a client configuration of any user, authenticated by a client
// certificate, without client-side rate limit.
func (cp *ControlPlane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	pair, err := cp.pki.IssueClient(fmt.Sprintf("user-%d", cp.pki.Issued()), user, groups...)
	if err != nil {
		return nil, err
	}
	return cp.certConfig(pair), nil
}

func (cp *ControlPlane) certConfig(pair certs.KeyPair) *rest.Config {
	cfg := cp.config()
	cfg.CertData, cfg.KeyData = pair.CertPEM, pair.KeyPEM
	return cfg
}

// config returns a configuration without credentials.
func (cp *ControlPlane) config() *rest.Config {
	return &rest.Config{
		Host:            cp.Host(),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.pki.CAPEM},
		QPS:             -1, // no limit
		// Over loopback, compression would only cost CPU time.
		DisableCompression: true,
	}
}

// Kubeconfig returns cfg as a kubeconfig file, with credentials.
func Kubeconfig(cfg *rest.Config) ([]byte, error) {
	const name = "controlplane"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   cfg.Host,
			CertificateAuthorityData: cfg.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: cfg.CertData,
			ClientKeyData:         cfg.KeyData,
			Token:                 cfg.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// WriteKubeconfig writes cfg as a kubeconfig that only this user may read. It creates the directory.
func WriteKubeconfig(path string, cfg *rest.Config) error {
	data, err := Kubeconfig(cfg)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
