package hostfiles_test

import (
	"fmt"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// What is kept on a host, and what is done after a change; a mistake is named with its line.
func ExampleParse() {
	config, err := hostfiles.Parse([]byte(`
stores:
- name: nginx
  path: /etc/nginx/tls
  action: {systemd: {unit: nginx.service, verb: reload}}
`), "/var/lib/servingcert")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, store := range config.Stores {
		fmt.Println(store.Name, store.Kind, store.From, "->", store.Path, store.Action)
	}
	_, err = hostfiles.Parse([]byte("stores:\n- {name: nginx, mode: \"0777\"}\n"), "/var/lib/servingcert")
	fmt.Println(err)
	// Output:
	// nginx pair /var/lib/servingcert -> /etc/nginx/tls reload unit nginx.service
	// line 2: stores[0].mode: "0777": must be permissions in octal, such as "0640", that let the owner read, and nobody else write or execute
}
