package programs

import (
	"regexp"
	"slices"
	"strings"
)

// Setting is one setting of a command line, in one or more of its elements.
type Setting struct {
	// Name has no dashes: tls-cert-file of --tls-cert-file=X and of -tls-cert-file X,
	// ssl_cert_file of -c ssl_cert_file=X.
	Name string
	// Value is empty and Bare true if the setting has no value, as --tls.
	Value string
	Bare  bool
	// Elements are the elements of the command line.
	Elements []string
	// Certificate is true if the value leads to the certificate.
	Certificate bool
}

// Settings returns the settings of the flags, with the placeholders replaced.
func Settings(flags []string, replace func(string) string) []Setting {
	var out []Setting
	for i := 0; i < len(flags); i++ {
		elements := flags[i : i+1]
		var s Setting
		var assigned bool
		s.Name, s.Value, assigned = strings.Cut(Undashed(flags[i]), "=")
		if hasValue := i+1 < len(flags) && !strings.HasPrefix(flags[i+1], "-"); !assigned && hasValue {
			i++
			elements = flags[i-1 : i+1]
			s.Value = flags[i]
			if name, value, ok := strings.Cut(flags[i], "="); ok && !strings.Contains(name, "/") {
				s.Name, s.Value = name, value // the flag only introduces it, as -c and -o do
			}
			assigned = true
		}
		s.Bare = !assigned
		s.Certificate = LeadsToCertificate(strings.Join(elements, " "))
		s.Value = replace(s.Value)
		for _, e := range elements {
			s.Elements = append(s.Elements, replace(e))
		}
		out = append(out, s)
	}
	return out
}

// CertificateFlag returns the setting of a flag that has a file of the certificate as its
// value, in one element.
func CertificateFlag(flag, file string) Setting {
	return Setting{Name: Undashed(flag), Value: file, Elements: []string{flag + "=" + file}, Certificate: true}
}

// LeadsToCertificate reports whether a text has a placeholder of the certificate's files.
func LeadsToCertificate(text string) bool {
	return strings.Contains(text, Key) || slices.ContainsFunc(serving, func(p string) bool { return strings.Contains(text, p) })
}

// Undashed returns a flag without its one or two dashes.
func Undashed(flag string) string {
	return strings.TrimPrefix(strings.TrimPrefix(flag, "-"), "-")
}

// common are flags and variables with which unknown programs often take their
// certificate.
var common = []string{
	"tls-cert-file", "tls-private-key-file", "tls-key-file", "tls-cert", "tls-key", "tls-crt", "tls-certificate", "tls-cert-path", "tls-key-path",
	"tlscert", "tlskey", "tlsCertFile", "tlsKeyFile", "tls-cert-dir", "tls-certs-dir", "tls.cert", "tls.key", "tls.cert-file", "tls.key-file",
	"cert-file", "certfile", "cert-path", "cert-dir", "certs-dir", "certificate-file", "server-cert", "server-cert-file", "server-certificate",
	"ssl-cert", "ssl-key", "ssl-cert-file", "ssl-certfile", "ssl-keyfile", "ssl-certificate", "sslcert", "sslkey", "https-cert", "https-key",
	"https-cert-file", "https-certificate", "web.config.file", "webhook-cert-path", "webhook-cert-dir", "metrics-cert-path",
	"TLS_CERT", "TLS_KEY", "TLS_KEY_FILE", "TLS_CERT_PATH", "TLS_KEY_PATH", "TLS_CERTIFICATE", "SSL_CERT", "SSL_KEY", "SSL_CERTIFICATE",
	"SSL_CERT_PATH", "SSL_KEY_PATH", "SSL_KEY_FILE", "SERVER_CERT", "SERVER_CERT_FILE", "HTTPS_CERT", "HTTPS_CERT_FILE", "HTTPS_KEY_FILE",
	"SERVER_SSL_CERTIFICATE", "SERVER_SSL_KEY_STORE", "SERVER_SSL_BUNDLE", "ASPNETCORE_Kestrel__Certificates__Default__Path",
}

// telling matches names that are about certificates in any program.
var telling = regexp.MustCompile(`(?i)cert|crt|tls|ssl|https|pem`)

// spellings returns the names of flags and variables, without dashes, with which the
// programs and others take their certificate.
func spellings(list []Program) map[string]bool {
	out := map[string]bool{}
	for _, name := range common {
		out[name] = true
	}
	same := func(s string) string { return s }
	for i := range list {
		for _, s := range Settings(list[i].Flags, same) {
			if s.Certificate && telling.MatchString(s.Name) {
				out[s.Name] = true
			}
		}
		for _, v := range list[i].Env {
			if LeadsToCertificate(v.Value) && telling.MatchString(v.Name) {
				out[v.Name] = true
			}
		}
	}
	return out
}

// TakesCertificate reports whether programs take their certificate from a flag,
// without its dashes, or from a variable of this name.
func (t Table) TakesCertificate(name string) bool { return t.spellings[name] }
