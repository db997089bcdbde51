package signer

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"reflect"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// everythingIn returns every string and every byte that can be reached from v,
// unexported fields included, one after the other.
func everythingIn(v reflect.Value, seen map[uintptr]bool) string {
	var out strings.Builder
	walk(v, seen, &out)
	return out.String()
}

func walk(v reflect.Value, seen map[uintptr]bool, out *strings.Builder) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		walk(v.Elem(), seen, out)
	case reflect.Interface:
		walk(v.Elem(), seen, out)
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), seen, out)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			walk(key, seen, out)
			walk(v.MapIndex(key), seen, out)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			// A slice also keeps the elements between its length and its capacity.
			fmt.Fprintf(out, "%s\n", v.Slice(0, v.Cap()).Bytes())
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), seen, out)
		}
	case reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), seen, out)
		}
	case reflect.String:
		fmt.Fprintf(out, "%s\n", v.String())
	}
}

// piecesOf returns parts of a private key that no output may contain: lines of its PEM, and its
// secret number raw, in hex and in base 64.
func piecesOf(t require.TestingT, keyPEM []byte) []string {
	key, err := pki.ParseKey(keyPEM)
	require.NoError(t, err)
	var secret []byte
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		secret, err = k.Bytes()
	case ed25519.PrivateKey:
		secret = k.Seed()
	case *rsa.PrivateKey:
		secret = k.D.Bytes()
	}
	require.NoError(t, err)
	require.NotEmpty(t, secret)
	block, _ := pem.Decode(keyPEM)
	pieces := []string{
		string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret),
		string(block.Bytes), base64.StdEncoding.EncodeToString(block.Bytes), "-----BEGIN PRIVATE KEY-----",
	}
	lines := strings.Split(strings.TrimSpace(string(keyPEM)), "\n")
	return append(pieces, lines[2:len(lines)-1]...) // the first line is the same for all keys of a kind
}
