package main

// of is the selector that every query has.
const of = `{cluster=~"$cluster"}`

// boards are all dashboards: one for all clusters, and one for each process.
func boards() []board {
	return []board{overview(), signer(), rotator(), webhook()}
}

func overview() board {
	return board{
		"servingcert-overview", "servingcert / Overview", "Does servingcert work, in every cluster? What a cluster shows here is explained in docs/monitoring.md.",
		[]row{
			{"Is it well?", []panel{
				{"Clusters", "Clusters of which any process is scraped.", "short", 4, true, []query{{`count(group by (cluster) (servingcert_build_info` + of + `))`, ""}}},
				{"Replicas", "Processes that are scraped, by cluster.", "short", 10, true, []query{{`count by (cluster, process) (servingcert_build_info` + of + `)`, "{{cluster}} {{process}}"}}},
				{"Leaders", "1 where a replica leads, 0 where none does.", "short", 10, true, []query{{`max by (cluster, name) (leader_election_master_status` + of + `)`, "{{cluster}} {{name}}"}}},
				{"Problems of the CA", "Clusters in which no certificate can be issued, by reason. 0 is well.", "short", 12, false, []query{{`sum by (cluster) (servingcert_ca_problem` + of + `)`, "{{cluster}}"}}},
				{"Warnings of the CA", "What needs a person, and does not keep certificates from being issued.", "short", 12, false, []query{{`sum by (cluster) (servingcert_ca_warning` + of + `)`, "{{cluster}}"}}},
			}},
			{"What comes next", []panel{
				{"First certificate ends in", "Of all managed Secrets. By default no less than a tenth of its lifetime is left when it is renewed.", "s", 8, true, []query{{`min by (cluster) (servingcert_certificate_not_after_timestamp_seconds` + of + `) - time()`, "{{cluster}}"}}},
				{"The CA that signs ends in", "It is replaced when a third of its life is left.", "s", 8, true, []query{{`min by (cluster) (servingcert_ca_not_after_timestamp_seconds` + of + ` and on (cluster, generation) servingcert_ca_generation_info{cluster=~"$cluster", state="signing"}) - time()`, "{{cluster}}"}}},
				{"Certificates", "Certificates in managed Secrets.", "short", 8, true, []query{{`sum by (cluster) (servingcert_certificates` + of + `)`, "{{cluster}}"}}},
				{"What pods serve", "Pods that mount the key of a certificate, by what they were seen to serve.", "short", 12, false, []query{{`sum by (cluster, state) (servingcert_consumers` + of + `)`, "{{cluster}} {{state}}"}}},
				{"Builds", "More than one for long: an upgrade did not finish.", "short", 12, false, []query{{`count by (cluster, version, revision) (servingcert_build_info` + of + `)`, "{{cluster}} {{version}} {{revision}}"}}},
			}},
		},
	}
}

func signer() board {
	return board{
		"servingcert-signer", "servingcert / Signer", "Certificates, and the CA that signs them.",
		[]row{
			{"Certificates", []panel{
				{"Issued", "By reason, a second.", "short", 12, false, []query{{`sum by (cluster, reason) (rate(servingcert_certificates_issued_total` + of + `[$__rate_interval]))`, "{{cluster}} {{reason}}"}}},
				{"Failures", "By namespace and reason, a second: attempts that failed, and requests that are wrong.", "short", 12, false, []query{{`sum by (cluster, namespace, reason) (rate(servingcert_issue_failures_total` + of + `[$__rate_interval]))`, "{{cluster}} {{namespace}} {{reason}}"}}},
				{"Time to issue", "From the key to the written Secret.", "s", 12, false, []query{
					{`histogram_quantile(0.5, sum by (cluster, le) (rate(servingcert_issue_duration_seconds_bucket` + of + `[$__rate_interval])))`, "{{cluster}} p50"},
					{`histogram_quantile(0.99, sum by (cluster, le) (rate(servingcert_issue_duration_seconds_bucket` + of + `[$__rate_interval])))`, "{{cluster}} p99"},
				}},
				{"Due for renewal", "Certificates whose time has come, and those that should have been renewed an hour ago.", "short", 12, false, []query{
					{`count by (cluster) (max by (cluster, namespace, secret) (servingcert_certificate_renew_at_timestamp_seconds` + of + `) < time()) or 0 * group by (cluster) (servingcert_certificate_renew_at_timestamp_seconds` + of + `)`, "{{cluster}} due"},
					{`count by (cluster) (max by (cluster, namespace, secret) (servingcert_certificate_renew_at_timestamp_seconds` + of + `) < time() - 3600) or 0 * group by (cluster) (servingcert_certificate_renew_at_timestamp_seconds` + of + `)`, "{{cluster}} overdue"},
				}},
			}},
			{"The CA", []panel{
				{"Certificates by CA", "How far a succession has come: the older CA's line goes down to 0.", "short", 12, false, []query{{`sum by (cluster, issuer) (servingcert_certificates` + of + `)`, "{{cluster}} {{issuer}}"}}},
				{"Phase", "Stable, Wait, Reissue, Retire; the phase that it is in is 1.", "short", 12, false, []query{{`max by (cluster, phase) (servingcert_ca_phase` + of + `)`, "{{cluster}} {{phase}}"}}},
				{"Roots end in", "By generation.", "s", 12, false, []query{{`min by (cluster, generation) (servingcert_ca_not_after_timestamp_seconds` + of + `) - time()`, "{{cluster}} {{generation}}"}}},
				{"Problems and warnings", "By reason.", "short", 12, false, []query{
					{`max by (cluster, reason) (servingcert_ca_problem` + of + `)`, "{{cluster}} {{reason}}"},
					{`max by (cluster, reason) (servingcert_ca_warning` + of + `)`, "{{cluster}} {{reason}}"},
				}},
			}},
			{"Serving certificates of kubelets", []panel{
				{"Requests that wait", "By reason; empty if none waits, or the signer does not approve them.", "short", 12, false, []query{{`sum by (cluster, reason) (servingcert_kubelet_serving_waiting` + of + `)`, "{{cluster}} {{reason}}"}}},
				{"Answers", "Requests that were approved, and that were denied, by reason, a second.", "short", 12, false, []query{
					{`sum by (cluster) (rate(servingcert_kubelet_serving_approved_total` + of + `[$__rate_interval]))`, "{{cluster}} approved"},
					{`sum by (cluster, reason) (rate(servingcert_kubelet_serving_denied_total` + of + `[$__rate_interval]))`, "{{cluster}} {{reason}}"},
				}},
			}},
		},
	}
}

func rotator() board {
	return board{
		"servingcert-rotator", "servingcert / Rotator", "The CA bundle and its targets, what pods serve, and what is restarted for it.",
		[]row{
			{"The CA bundle", []panel{
				{"Targets", "Objects that ask for the bundle, by what became of it.", "short", 12, false, []query{{`sum by (cluster, state) (servingcert_trust_targets` + of + `)`, "{{cluster}} {{state}}"}}},
				{"Refusing", "Targets that cannot be written, by kind and reason.", "short", 12, false, []query{{`sum by (cluster, kind, reason) (servingcert_trust_refusing` + of + `)`, "{{cluster}} {{kind}} {{reason}}"}}},
				{"Writes", "Of the bundle into targets, a second.", "short", 12, false, []query{{`sum by (cluster, kind, why) (rate(servingcert_trust_writes_total` + of + `[$__rate_interval]))`, "{{cluster}} {{kind}} {{why}}"}}},
				{"Pods that were missed", "They run without the Secret that they would get today.", "short", 12, false, []query{{`sum by (cluster, namespace) (servingcert_missed_pods` + of + `)`, "{{cluster}} {{namespace}}"}}},
			}},
			{"What pods serve", []panel{
				{"Not current", "Pods by state, without those that serve their certificate.", "short", 12, false, []query{{`sum by (cluster, namespace, state) (servingcert_consumers{cluster=~"$cluster", state!="current"})`, "{{cluster}} {{namespace}} {{state}}"}}},
				{"Stale certificates end in", "The first in each namespace.", "s", 12, false, []query{{`min by (cluster, namespace) (servingcert_stale_not_after_timestamp_seconds` + of + `) - time()`, "{{cluster}} {{namespace}}"}}},
				{"Dials", "By result, a second.", "short", 12, false, []query{{`sum by (cluster, result) (rate(servingcert_probes_total` + of + `[$__rate_interval]))`, "{{cluster}} {{result}}"}}},
				{"Restarts", "Rolling out, held, and not progressing.", "short", 12, false, []query{
					{`sum by (cluster) (servingcert_restarts_rolling` + of + `)`, "{{cluster}} rolling"},
					{`sum by (cluster, reason) (servingcert_restarts_held` + of + `)`, "{{cluster}} held {{reason}}"},
					{`sum by (cluster, namespace) (servingcert_restarts_stuck` + of + `)`, "{{cluster}} stuck in {{namespace}}"},
				}},
			}},
			{"Kubelets and hosts", []panel{
				{"Kubelets", "Nodes by what their kubelet serves; empty if they are not dialled.", "short", 12, false, []query{{`sum by (cluster, state) (servingcert_kubelets` + of + `)`, "{{cluster}} {{state}}"}}},
				{"Stores that need attention", "Hosts by store and reason.", "short", 12, false, []query{{`count by (cluster, store, reason) (servingcert_host_store_ready` + of + ` == 0)`, "{{cluster}} {{store}} {{reason}}"}}},
				{"Stores end in", "The first host of each store.", "s", 12, false, []query{{`min by (cluster, store) (servingcert_host_store_leaf_not_after_timestamp_seconds` + of + ` > 0) - time()`, "{{cluster}} {{store}}"}}},
				{"Switches", "Of stores, and those that were taken back; a second.", "short", 12, false, []query{
					{`sum by (cluster, store) (rate(servingcert_host_store_switches_total` + of + `[$__rate_interval]))`, "{{cluster}} {{store}}"},
					{`sum by (cluster, store) (rate(servingcert_host_store_rollbacks_total` + of + `[$__rate_interval]))`, "{{cluster}} {{store}} back"},
				}},
			}},
		},
	}
}

func webhook() board {
	return board{
		"servingcert-webhook", "servingcert / Webhook", "Reviews of pods: how many, how long they take, and what becomes of them.",
		[]row{
			{"Reviews", []panel{
				{"Reviews", "By result, a second. failed: the API server got no answer.", "short", 12, false, []query{{`sum by (cluster, result) (rate(servingcert_webhook_reviews_total` + of + `[$__rate_interval]))`, "{{cluster}} {{result}}"}}},
				{"Time to answer", "The API server waits 5 s.", "s", 12, false, []query{
					{`histogram_quantile(0.5, sum by (cluster, le) (rate(servingcert_webhook_review_duration_seconds_bucket` + of + `[$__rate_interval])))`, "{{cluster}} p50"},
					{`histogram_quantile(0.99, sum by (cluster, le) (rate(servingcert_webhook_review_duration_seconds_bucket` + of + `[$__rate_interval])))`, "{{cluster}} p99"},
				}},
				{"Reasons", "Why pods got nothing, were denied, or were not answered; a second.", "short", 12, false, []query{{`sum by (cluster, reason) (rate(servingcert_webhook_reviews_total` + of + `[$__rate_interval]))`, "{{cluster}} {{reason}}"}}},
				{"Reads of the API server", "Reviews that the caches could not decide, a second.", "short", 12, false, []query{{`sum by (cluster) (rate(servingcert_webhook_live_reads_total` + of + `[$__rate_interval]))`, "{{cluster}}"}}},
			}},
			{"Settings", []panel{
				{"Table of programs", "0: the operator's table is not valid, and an older one is in use.", "short", 12, true, []query{{`min by (cluster) (servingcert_webhook_programs_valid` + of + `)`, "{{cluster}}"}}},
				{"Flags that are withheld", "By namespace: programs that exit because of unrequested flags.", "short", 12, false, []query{{`sum by (cluster, namespace) (servingcert_flags_withheld` + of + `)`, "{{cluster}} {{namespace}}"}}},
			}},
		},
	}
}
