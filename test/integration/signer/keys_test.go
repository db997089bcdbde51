package signer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// keyIn is an error if the text holds anything of a private key of a Secret that
// exists (invariant 7). All namespaces are looked at if none is given.
func keyIn(text, namespace string) error {
	if strings.Contains(text, "-----BEGIN") {
		return errors.New("PEM is told to everyone")
	}
	secrets, err := admin.CoreV1().Secrets(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, secret := range secrets.Items {
		for key, value := range secret.Data {
			if !strings.HasSuffix(key, ".key") && key != api.CombinedKey {
				continue
			}
			for i, line := range strings.Split(string(value), "\n") {
				// The lines before begin alike for all keys.
				if i >= 2 && len(line) > 20 && strings.Contains(text, line) {
					return fmt.Errorf("%s of Secret %s/%s is told to everyone", key, secret.Namespace, secret.Name)
				}
			}
		}
	}
	return nil
}

// keyInWords is an error if an event or a condition of the namespace, or what the
// shared signer has logged, holds anything of a private key of the namespace.
func keyInWords(namespace string) error {
	ctx, words := context.Background(), strings.Builder{}
	events, err := admin.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		words.WriteString(e.Note + "\n")
	}
	services, err := admin.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		if c := api.Condition(&services.Items[i], api.ConditionReady); c != nil {
			words.WriteString(c.Message + "\n")
		}
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users > 0 {
		words.WriteString(shared.log.String())
	}
	return keyIn(words.String(), namespace)
}
