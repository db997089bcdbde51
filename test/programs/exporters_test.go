//go:build linux

package programs

import corev1 "k8s.io/api/core/v1"

// webConfigFile are the programs that read the configuration file of the exporter toolkit.
// All are Debian's.
var webConfigFile = []program{
	{
		name: "alertmanager", image: "quay.io/prometheus/alertmanager:v0.25.0", executable: "/usr/bin/prometheus-alertmanager",
		args: []string{"--config.file=/etc/prometheus/alertmanager.yml", "--storage.path={work}/data", "--web.listen-address={at}:9093", "--cluster.listen-address="},
		port: 9093,
	},
	{
		name: "bind-exporter", image: "prometheuscommunity/bind-exporter:v0.6.1", executable: "/usr/bin/prometheus-bind-exporter",
		args: []string{"--web.listen-address={at}:9119"}, port: 9119,
	},
	{
		name: "blackbox-exporter", image: "quay.io/prometheus/blackbox-exporter:v0.23.0", executable: "/usr/bin/prometheus-blackbox-exporter",
		args: []string{"--config.file=/etc/prometheus/blackbox.yml", "--web.listen-address={at}:9115"}, port: 9115,
	},
	{
		name: "haproxy-exporter", image: "quay.io/prometheus/haproxy-exporter:v0.14.0", executable: "/usr/bin/prometheus-haproxy-exporter",
		args: []string{"--web.listen-address={at}:9101"}, port: 9101,
	},
	{
		name: "mysqld-exporter", image: "prom/mysqld-exporter:v0.14.0", executable: "/usr/bin/prometheus-mysqld-exporter",
		args: []string{"--web.listen-address={at}:9104"}, env: []corev1.EnvVar{{Name: "DATA_SOURCE_NAME", Value: "user@tcp(127.0.0.1:1)/"}}, port: 9104,
	},
	{
		name: "node-exporter", image: "quay.io/prometheus/node-exporter:v1.5.0", executable: "/usr/bin/prometheus-node-exporter",
		args: []string{"--collector.disable-defaults", "--collector.time", "--web.listen-address={at}:9100"}, port: 9100,
	},
	{
		name: "postgres-exporter", image: "quay.io/prometheuscommunity/postgres-exporter:v0.11.1", executable: "/usr/bin/prometheus-postgres-exporter",
		args: []string{"--web.listen-address={at}:9187"}, env: []corev1.EnvVar{{Name: "DATA_SOURCE_NAME", Value: "postgresql://127.0.0.1:1/"}}, port: 9187,
	},
	{
		name: "process-exporter", image: "ncabatoff/process-exporter:0.7.10", executable: "/usr/bin/prometheus-process-exporter",
		args: []string{"-procnames=none", "-web.listen-address={at}:9256"}, port: 9256,
	},
	{
		name: "prometheus", image: "quay.io/prometheus/prometheus:v2.42.0", executable: "/usr/bin/prometheus",
		files: map[string]string{"prometheus.yml": "global: {scrape_interval: 1h}\n"},
		args:  []string{"--config.file={work}/prometheus.yml", "--storage.tsdb.path={work}/data", "--web.listen-address={at}:9090"},
		port:  9090,
	},
	{
		name: "pushgateway", image: "prom/pushgateway:v1.5.1", executable: "/usr/bin/prometheus-pushgateway",
		args: []string{"--web.listen-address={at}:9091"}, port: 9091,
	},
	{
		name: "snmp-exporter", image: "prom/snmp-exporter:v0.21.0", executable: "/usr/bin/prometheus-snmp-exporter",
		files: map[string]string{"snmp.yml": "none: {walk: [1.3.6.1.2.1.1], metrics: []}\n"},
		args:  []string{"--config.file={work}/snmp.yml", "--web.listen-address={at}:9116"}, port: 9116,
	},
}
