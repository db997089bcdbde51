package hostfiles_test

import (
	"fmt"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// The example lists the stores with their actions. The error of a mistake has its line.
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
	// line 2: stores[0].mode: "0777": must be octal permissions, such as "0640": readable by the owner, not writable by others, not executable
}
