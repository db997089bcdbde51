package controller

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// The unit of work is a pods.NamespacedKey: a Secret, the pods of a namespace that have keys
// of their own, or, without a Key, the Services that have a part in neither and still have a
// condition Serving. The queue of a controller and the index of Services have text in its
// place, which is written and read here.

// partInNone is no Key as text. It is not a value that kubectl can give an annotation.
const partInNone = "\x00none"

func textOf(key pods.Key) string {
	if key == (pods.Key{}) {
		return partInNone
	}
	return key.String()
}

func nameOf(key pods.NamespacedKey) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: textOf(key.Key)}
}

func requestOf(key pods.NamespacedKey) reconcile.Request {
	return reconcile.Request{NamespacedName: nameOf(key)}
}

func keyOf(req reconcile.Request) pods.NamespacedKey {
	key := pods.NamespacedKey{Namespace: req.Namespace}
	if req.Name != partInNone {
		key.Key = pods.ParseKey(req.Name)
	}
	return key
}

// ofSecret is the key in a Secret.
func ofSecret(secret types.NamespacedName) pods.NamespacedKey {
	return pods.NamespacedKey{Namespace: secret.Namespace, Key: pods.SecretKey(secret.Name)}
}

// podKeysOf are the keys of their own that pods of a namespace have.
func podKeysOf(namespace string) pods.NamespacedKey {
	return pods.NamespacedKey{Namespace: namespace, Key: pods.PodKey}
}
