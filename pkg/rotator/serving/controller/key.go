package controller

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// The unit of work is a pods.NamespacedKey: that of a Secret; the pods' own keys in a namespace;
// or, without a Key, the Services with a part in neither that still have a condition Serving. The
// queue and the index of Services use its text, which is empty for the zero Key alone.

func nameOf(key pods.NamespacedKey) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Key.String()}
}

func requestOf(key pods.NamespacedKey) reconcile.Request {
	return reconcile.Request{NamespacedName: nameOf(key)}
}

func keyOf(req reconcile.Request) pods.NamespacedKey {
	return pods.NamespacedKey{Namespace: req.Namespace, Key: pods.ParseKey(req.Name)}
}

// ofSecret is the key in a Secret.
func ofSecret(secret types.NamespacedName) pods.NamespacedKey {
	return pods.NamespacedKey{Namespace: secret.Namespace, Key: pods.SecretKey(secret.Name)}
}

// podKeysOf is the key of the pods with their own keys in a namespace.
func podKeysOf(namespace string) pods.NamespacedKey {
	return pods.NamespacedKey{Namespace: namespace, Key: pods.PodKey}
}
