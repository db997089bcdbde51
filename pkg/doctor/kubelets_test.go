package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeletAsked has a kubelet make a request so long ago, after one that was signed.
func kubeletAsked(condition certificatesv1.RequestConditionType, reason, message string, ago time.Duration) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		request := func(name string, ago time.Duration) certificatesv1.CertificateSigningRequest {
			o := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-ago))}}
			o.Spec.Username = "system:node:worker-1"
			return o
		}
		first, last := request("csr-1", time.Hour), request("csr-2", ago)
		first.Status.Certificate = []byte("x")
		if condition != "" {
			last.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: condition, Reason: reason, Message: message}}
		}
		f.Installation.KubeletRequests = []certificatesv1.CertificateSigningRequest{last, first}
	}
}

func TestApprovesKubelets(t *testing.T) {
	for arg, want := range map[string]bool{"--approve-kubelet-serving": true, "--approve-kubelet-serving=true": true, "--approve-kubelet-serving=false": false, "--csr=false": false} {
		i := &Installation{Deployments: map[string]*appsv1.Deployment{"servingcert-signer": running("", arg)}}
		assert.Equal(t, want, i.ApprovesKubelets(), arg)
	}
	assert.False(t, (&Installation{}).ApprovesKubelets())
}

// A request is answered in a moment, and the newest of a node counts.
func TestAKubeletThatHasJustAsked(t *testing.T) {
	f := healthy(t)
	kubeletAsked("", "", "", answerTime-time.Second)(t, &f)
	assert.Empty(t, f.Installation.kubelets(noon))
	kubeletAsked("", "", "", answerTime)(t, &f)
	assert.Len(t, f.Installation.kubelets(noon), 1)
}
