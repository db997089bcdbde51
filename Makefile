# Everything that a contributor or CI runs. `make help` lists it.
# Needs Go, git and make; everything else is built from pinned Go modules. The race detector
# needs a C compiler.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The Go that go.mod names, for every module and whatever is installed: Go fetches it as a module, which
# GOTOOLCHAIN=local, as in the images of golang, would forbid.
export GOTOOLCHAIN := $(shell awk '$$1 == "toolchain" {print $$2}' go.mod)

# As what ships is compiled, so that Go's cache has each package once, and once more with the race detector,
# which needs C: lint, tests without it, programs, and what others wrote.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# What `make test` runs; for one package: make test PKG=./pkg/signer/... TESTFLAGS='-run TestX -v'
PKG       ?= ./...
TESTFLAGS ?=
# RACE=1: with the race detector.
RACE      ?=
# KUBERNETES=1.30 or another directory of hack/controlplane/build: on that version instead of the
# current one. etcd stays the current one.
OLDEST    := 1.30
# Packages at once: those that run a control plane wait part of the time. While one is linked with the race
# detector, it takes up to 3 GiB.
PACKAGES := $(shell { getconf _NPROCESSORS_ONLN; awk '/^MemAvailable/ {print int($$2 / 3 / 2^20)}' /proc/meminfo 2>/dev/null; } | \
	awk 'NR == 1 {n = 2 * $$1} NR == 2 && $$1 < n {n = $$1} END {print (n > 1 ? n : 1)}')
# What runs a control plane, the longest first. Go's cache of results does not see what such a test depends on.
ON_CONTROLPLANE ?= $(addprefix ./test/integration/,cli signer trust deploy consumers ...)
# What only test-long runs: years of a CA, whole installations, memory, and the tools of the repository. In other
# packages, tests that take long have the build tag long.
LONG := $(addprefix ./test/integration/,succession chart lifecycle metrics) ./hack/...
# What starts goroutines that share something, and those of the programs: what `make race` runs.
CONCURRENT := $(addprefix ./pkg/,facts formats hostfiles/hostsync hostfiles/store mutate/admission proxy/server \
	rotator/probe/controller rotator/cluster signer/controller signer/podcert/controller signer/ratelimit facts/queue signer/requests \
	trust/controller ca/controller) \
	$(addprefix ./cmd/,internal/... webhook/app rotator/app hostsync/app kubectl-servingcert/internal/cluster kubectl-servingcert/internal/collect) \
	./hack/process
RACING     := $(addprefix ./test/integration/,consumers openshift)
# Without what only debuggers read, linking takes a quarter less. Stack traces need none of it.
STRIPPED := -ldflags '-s -w'
# How many certificates `make bench` issues from cold.
N         ?= 2000

BIN  := $(CURDIR)/bin
LINT := $(BIN)/golangci-lint
# Modules of the repository whose code is ours, with tests and lint of their own: the project, the chart, and
# what needs a library of container registries.
OURS := . hack/chart hack/node hack/release test/e2e
# The one that every change is linted in: the others compile helm, and libraries of container registries.
LINTED := .
# All of them: the tools, Kubernetes, what pods of the node run, cfssl's servers, programs that take a
# certificate, the Prometheus operator's library, Flux and Argo CD.
MODULES := $(OURS) hack/tools hack/prose hack/controlplane/build hack/controlplane/build/1.30 \
	hack/controlplane/build/1.33 hack/controlplane/build/1.36 hack/node/build/coredns hack/node/build/metrics-server hack/node/build/cert-manager hack/node/build/step-ca hack/node/build/prometheus \
	hack/cfssl test/programs/build/small test/programs/build/kube-rbac-proxy test/programs/build/minio test/promtest/operator \
	test/integration/gitops/build/flux test/integration/gitops/build/argo

##@ Start here

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: controlplane-binaries ## see it work on a real control plane; KEEP=1 leaves it running
	go run ./hack/demo

# Where the plugin goes, which must be in PATH.
PREFIX ?= /usr/local
.PHONY: plugin
plugin: ## build the plugin for kubectl and install it into $$PREFIX/bin
	go build $(STRIPPED) -o $(PREFIX)/bin/kubectl-servingcert ./cmd/kubectl-servingcert

##@ While developing

.PHONY: test
test: controlplane-binaries cfssl-servers ## unit, property and integration tests: run it before every commit; PKG=./pkg/x/... for some of them, RACE=1 with the race detector, KUBERNETES=1.30 on an older version
ifeq ($(PKG),./...)
	@$(call run-tests,$$(go list ./... | grep -vxFf <(go list $(LONG) $(ON_CONTROLPLANE)))) || failed=1; \
	$(call run-tests,-count=1 $$(go list $(ON_CONTROLPLANE) | grep -vxFf <(go list $(LONG)) | awk '!seen[$$0]++')) || failed=1; \
	$(print-skipped); exit $${failed:-0}
else
	@$(call run-tests,-count=1 $(PKG)) || failed=1; $(print-skipped); exit $${failed:-0}
endif

# Tests of what something costs run no second goroutine, and take ten times as long with the race detector.
.PHONY: race
race: RACE := 1
race: TESTFLAGS := -skip=Cost
race: controlplane-binaries ## what runs most goroutines at once, the programs too, with the race detector
	@$(call run-tests,$(CONCURRENT)) || failed=1; \
	$(call run-tests,-count=1 $(RACING)) || failed=1; \
	$(print-skipped); exit $${failed:-0}

.PHONY: test-long
test-long: RACE := 1
test-long: TIMEOUT := 60m
test-long: controlplane-binaries cfssl-servers cert-manager helm ## every test, those that take long and those of other modules too, with the race detector; RACE= without
	@$(call run-tests,-count=1 -tags long $$(go list $(ON_CONTROLPLANE) ./... | awk '!seen[$$0]++')) || failed=1; \
	$(if $(RACE),go test -vet=off -count=1 -timeout 30m -tags long -run Flood ./test/integration/metrics || failed=1; \
		go test -vet=off -count=1 -timeout 30m -p 1 -tags long -run 'TestManyPods$$|TestManySecretsOfOtherIssuers' ./cmd/kubectl-servingcert/internal/cluster ./test/integration/signer || failed=1;) \
	for dir in $(filter-out . hack/chart,$(OURS)); do CGO_ENABLED=$(if $(RACE),1,0) go test -C $$dir -vet=off -count=1 $(if $(RACE),-race) $(TESTFLAGS) ./... || failed=1; done; \
	$(print-skipped); exit $${failed:-0}

.PHONY: test-oldest
test-oldest: export KUBERNETES := $(OLDEST)
test-oldest: controlplane-binaries cfssl-servers cert-manager helm ## what runs a control plane, on the oldest version that is supported
	@$(call run-tests,-count=1 $(ON_CONTROLPLANE) ./hack/controlplane) || failed=1; $(print-skipped); exit $${failed:-0}

# make lint runs vet's checks. With GOGC=400 tests, compilers and linkers collect garbage less often: a sixth of the
# CPU, for 1.5 times the memory. Programs that tests start have the default. The race detector waits a second for late
# reports at the end of each package, unless it is told to wait for less.
SKIPPED := $(BIN)/skipped
# Of one package. The longest takes 26 minutes with the race detector.
TIMEOUT := 30m
run-tests = mkdir -p $(BIN) && SERVINGCERT_SKIPPED=$(SKIPPED) SERVINGCERT_CONTROLPLANE_GOGC=400 GOGC=400 GORACE=atexit_sleep_ms=100 \
	CGO_ENABLED=$(if $(RACE),1,0) go test -vet=off $(STRIPPED) -p $(PACKAGES) -timeout $(TIMEOUT) $(if $(RACE),-race) $(TESTFLAGS) $(1)
# go test does not name what was skipped in a package that passed.
print-skipped = [ ! -s $(SKIPPED) ] || { echo; echo "skipped, whole or in part:"; sort -u $(SKIPPED); rm $(SKIPPED); }

.PHONY: ci-full
ci-full: ## what takes long, each target by itself, and a table of what failed (.ci/long); three hours
	.ci/full

# A failure is kept under testdata/fuzz and is a case of `make test` from then on.
# Minimizing what is merely new would take the time away from finding more.
FUZZTIME ?= 15s
.PHONY: fuzz
fuzz: ## look for pods, manifests, CA successions and hostile input that break a promise, FUZZTIME for each target
	go test -run '^TestInvariant6' ./pkg/ca -rapid.checks 50
	@grep -r --include='*_test.go' '^func Fuzz' pkg | sed -E 's|/[^/]*:func ([A-Za-z0-9_]+).*| \1|' | sort | while read -r package target; do \
		echo "$$package $$target"; \
		go test -tags long -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./$$package </dev/null; done

.PHONY: fips
fips: controlplane-binaries ## sign, judge and succeed where Go refuses whatever FIPS 140-3 does not approve, and the demo in Go's FIPS mode
	GODEBUG=fips140=only go test ./pkg/pki ./pkg/ca ./pkg/signer/issue ./pkg/signer/podcert/... ./pkg/signer/controller
	GODEBUG=fips140=only go test -run '^TestCFSSL(Differs|Errors)' ./pkg/signer/cfssl
	GODEBUG=fips140=on go run ./hack/demo

.PHONY: chart-test
chart-test: ## the Helm chart: lint, each value, the overlays, and that deploy/ is as it renders
	go test -C hack/chart -count=1 ./...

REQUIRE ?=
.PHONY: tlsstacks
tlsstacks: ## OpenSSL, curl, GnuTLS, Python, Java and Node against every generation of a CA; REQUIRE=openssl,curl fails if one is missing
	go run ./test/tlsstacks --require "$(REQUIRE)"

.PHONY: examples
examples: ## the servers of docs/serving-from-a-program.md, each through a renewal; REQUIRE=javac,node,python3,nginx fails if one is missing
	go test -tags examples -count 1 ./test/docs/serving -v -require "$(REQUIRE)"

# The regular expression in RUN matches names of programs.
RUN ?=
.PHONY: programs
programs: controlplane-binaries ## programs with the flags, variables and files that the webhook gives them, renewed, and servers that begin without TLS (Debian, root); RUN=redis for some
	go test -tags programs -count 1 -timeout 20m -parallel 8 -v -run '^Test(Programs|StartTLS)$$/^each$$/$(RUN)' ./test/programs

.PHONY: alerts
alerts: controlplane-binaries ## every alert by promtool, and fired by a real Prometheus when what it watches is broken; needs Debian's prometheus
	go test -tags alerts -count 1 -timeout 10m -v -run '^TestAlertsByPromtool$$' ./deploy
	go test -tags alerts -count 1 -timeout 10m -v ./test/integration/alerts

TOOL ?=
.PHONY: gitops
gitops: controlplane-binaries helm ## Flux and Argo CD, their own controllers, keep servingcert and an application as a repository says (Debian, root); TOOL=Flux or ArgoCD for one
	@for tool in $(if $(filter-out Flux ArgoCD,$(TOOL)),$(error TOOL=$(TOOL): must be Flux or ArgoCD),$(or $(TOOL),Flux ArgoCD)); do \
		go test -tags gitops -count 1 -timeout 45m -v -run "^Test$$tool\$$" ./test/integration/gitops -tool $$tool || failed=1; done; exit $${failed:-0}

.PHONY: lint
lint: $(LINT) ## style, import rules, tidy modules
	@for dir in $(LINTED); do echo "golangci-lint in $$dir"; (cd $$dir && $(LINT) run) || failed=1; \
		echo "go -C $$dir mod tidy -diff"; go -C $$dir mod tidy -diff || failed=1; done; exit $${failed:-0}

# For these Go compiles helm, and downloads what the tests of other modules are made of,
# gigabytes; the Prometheus operator's library takes minutes. What is generated with it names the file that it is
# of, and `make test` compares.
.PHONY: lint-long
lint-long: LINTED := $(filter-out $(LINTED),$(OURS))
lint-long: lint ## the same for the other modules, that those which only build what others wrote are tidy, and what the Prometheus operator makes of deploy/podmonitors.yaml
	@for dir in $(filter-out $(OURS),$(MODULES)); do echo "go -C $$dir mod tidy -diff"; go -C $$dir mod tidy -diff; done
	go test -C test/promtest/operator -count=1 ./...

# Decisions and changes are history, and what is generated is mended where it is made.
PROSE := $(filter-out CHANGELOG.md docs/programs.md docs/reference-generated.md docs/chart.md docs/checks.md docs/cli.md, $(wildcard *.md docs/*.md deploy/*.md))
.PHONY: prose
prose: ## the pages keep to the rules in hack/prose, by vale: short sentences, an actor, words of the glossary; PROSE=docs/faq.md for some
	@CGO_ENABLED=1 go build -C hack/prose -o $(BIN)/vale tool
	$(BIN)/vale --config hack/prose/vale.ini --output line $(PROSE)

.PHONY: fmt
fmt: $(LINT) ## format the code and sort its imports
	$(LINT) fmt

.PHONY: generate
generate: ## bring everything that is generated up to date
	go generate ./...
	go run -C hack/chart . generate
	go run -C test/promtest/operator . $(CURDIR)/deploy/podmonitors.yaml $(CURDIR)/test/promtest/podmonitors.yaml
	@for dir in $(MODULES); do echo "go -C $$dir mod tidy"; go -C $$dir mod tidy; done

.PHONY: bench
bench: controlplane-binaries ## measure signer and webhook beside their floors; N=10000 for more than 2000 certificates
	go test -run '^$$' -bench . -benchmem ./pkg/...
	go run ./hack/bench -n $(N)

.PHONY: bench-proxy
bench-proxy: ## measure the proxy beside nginx, haproxy and ghostunnel, as far as they are installed; about seven minutes
	go run ./hack/bench --proxy

# One attack alone: make hostile ATTACKS=tarpits. All are listed in docs/limits.md.
DURATION ?= 2m
ATTACKS  ?=
.PHONY: hostile
hostile: controlplane-binaries ## one tenant runs all attacks while another works, and what the other measures, DURATION each alone and attacked; ATTACKS=tarpits,rollouts for some
	go run ./hack/scenes attacks --duration $(DURATION) --only "$(ATTACKS)"

# All faults are listed in docs/reliability.md.
FAULTS ?=
SHORT  ?=
.PHONY: chaos
chaos: controlplane-binaries ## break processes, API server, etcd, clocks and the CA, and look what becomes of 500 Services; FAULTS=kill-all,etcd for some; about eight minutes, SHORT=1 about four
	go run ./hack/scenes faults --only "$(FAULTS)" $(if $(SHORT),--short)

.PHONY: controlplane
controlplane: ## run a control plane to try things on, until Ctrl-C
	@go build -o $(BIN)/controlplane ./hack/controlplane/cmd/controlplane
	@exec $(BIN)/controlplane

##@ A real node (Linux, root)

.PHONY: node-up
node-up: images ## run a whole Kubernetes with kubelet and containerd on this machine; does nothing if it is up
	@go build -C hack/node -o $(BIN)/node ./cmd/node
	@$(BIN)/node up

.PHONY: node-down
node-down: ## end it and remove what it made, except for what pods wrote to a hostPath
	@go build -C hack/node -o $(BIN)/node ./cmd/node
	@$(BIN)/node down

.PHONY: node-binaries
node-binaries: ## the node's components, built once
	@go run -C hack/node ./cmd/node fetch

.PHONY: images
images: ## images of webhook, signer, rotator, proxy and hostsync into bin/images/, without docker
	@go run -C hack/node ./images/cmd/images --dir $(BIN)/images

.PHONY: node-test
node-test: node-binaries ## raise such a node, break it in every way, and see that nothing remains of it
	go test -tags e2e -count 1 -v ./test/deb
	go test -C hack/node -tags e2e -count 1 -timeout 15m -v . ./images

# What it leaves is in bin/e2e. A panic of the test itself leaves its node, hence the
# last line.
SCENES ?=
KEEP   ?=
E2E_NODE := --dir=/var/lib/servingcert-e2e --subnet=10.89.0.0/16
.PHONY: e2e
e2e: images ## scenes with real workloads on such a node, or on the cluster of $$KUBECONFIG; SCENES=reload,nginx for some, SCENES=-gateway,-reboot for all but those, KEEP=1 leaves the node
	@go run -C test/e2e ./images --out $(BIN)/e2e/images --scenes "$(SCENES)"
	@go build -C hack/node -o $(BIN)/node ./cmd/node
	@go test -C test/e2e -c -tags e2e -o $(BIN)/e2e.test .
	@cd test/e2e && KUBECONFIG="$(if $(KUBECONFIG),$(abspath $(KUBECONFIG)))" $(BIN)/e2e.test -test.v -test.timeout 40m -scenes "$(SCENES)" $(if $(KEEP),-keep) || \
		{ [ $$? -eq 3 ] || $(if $(KEEP)$(KUBECONFIG),true,$(BIN)/node down $(E2E_NODE)); exit 1; }

##@ What ships

.PHONY: build
build: ## static binaries of everything in cmd, into bin/
	go build $(STRIPPED) -o $(BIN)/ ./cmd/...

# Findings in code that the programs reach fail it. The database comes from vuln.go.dev, or from a copy
# of it: VULNDB=file:///path.
VULNDB      ?=
GOVULNCHECK := $(BIN)/govulncheck
.PHONY: vulncheck
vulncheck: ## known vulnerabilities that the programs reach, by govulncheck; needs a network, or VULNDB=file:///path
	@go build -C hack/tools -o $(GOVULNCHECK) golang.org/x/vuln/cmd/govulncheck
	$(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./cmd/... ./pkg/...

# Of the last commit, and nothing that is not committed. docs/release.md says the rest.
REGISTRY ?= ghcr.io
RELEASE  := bin/release
.PHONY: release
release: ## all that a release publishes, into bin/release/, without docker; VERSION=v1.2.3 REGISTRY=ghcr.io
	go run -C hack/release . build --version "$(VERSION)" --registry "$(REGISTRY)" --dir $(CURDIR)/$(RELEASE)

.PHONY: release-test
release-test: ## build a release twice, in two places, compare the bytes, and use it as those do who download it
	go test -C hack/release -tags release -count 1 -timeout 15m -v -run '^TestRelease$$' .

.PHONY: release-push
release-push: ## push the images of bin/release to their registry
	go run -C hack/release . push --dir $(CURDIR)/$(RELEASE)

.PHONY: release-sign
release-sign: ## sign images and checksums of bin/release and attest the images' SBOMs, keyless; needs cosign
	cosign sign-blob --yes --bundle $(RELEASE)/checksums.txt.sigstore.json $(RELEASE)/checksums.txt
	while read -r digest name; do \
		cosign sign --yes "$$name@sha256:$$digest" </dev/null; \
		cosign attest --yes --type spdxjson --predicate "$(RELEASE)/$${name##*/}.oci.spdx.json" "$$name@sha256:$$digest" </dev/null; \
	done <$(RELEASE)/images.sha256

# A version with a hyphen, as v1.2.3-rc.1, is a pre-release.
.PHONY: release-publish
release-publish: ## make the release of tag VERSION on GitHub, with the files of bin/release; needs gh
	gh release create "$(VERSION)" --verify-tag --title "$(VERSION)" $(if $(findstring -,$(VERSION)),--prerelease) \
		--notes-file $(RELEASE)/release-notes.md $(RELEASE)/*

NPM_CI := npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
.PHONY: website
website: ## the pages of docs/ as a website, into website/dist/; needs npm
	cd website && $(NPM_CI) && npm run build

.PHONY: website-releases
website-releases: ## the same, and the pages of each release (tags v*) below /TAG/; BASE=/servingcert/ if the site is not at its host's root
	cd website && $(NPM_CI) && ./releases.sh

.PHONY: website-publish
website-publish: ## push website/dist/ to branch gh-pages of $$GITHUB_REPOSITORY, with $$TOKEN
	cd website/dist && touch .nojekyll && git init --quiet --initial-branch gh-pages && git add --all && \
		git -c user.name=website -c user.email=website@localhost commit --quiet --message "The website of $$GITHUB_SHA" && \
		git push --quiet --force "https://x-access-token:$$TOKEN@github.com/$$GITHUB_REPOSITORY" gh-pages

.PHONY: website-check
website-check: website ## lint the Markdown, look at each page in a browser, as on a desktop and a phone, and search; needs $$CHROMIUM, or /usr/bin/chromium
	cd website && npm run lint && npm run check

.PHONY: clean
clean: ## remove what was built here; Go's caches and the control plane's stay
	rm -rf $(BIN)

##@ Fetched by the others when it is missing

# Before the tests and not by them, as its progress is seen here: go test shows the
# output of a package only when the package is done.
.PHONY: controlplane-binaries
controlplane-binaries: ## etcd, kube-apiserver and kube-controller-manager, from $$KUBEBUILDER_ASSETS or built once, of $$KUBERNETES or the current version
	@go run ./hack/controlplane/cmd/controlplane --fetch-only

.PHONY: cfssl-servers
cfssl-servers: ## cfssl serve and multirootca, which the tests of a CA elsewhere run, into Go's build cache
	@GOFLAGS= go build -C hack/cfssl -trimpath -o /dev/null tool

.PHONY: cert-manager
cert-manager: ## cert-manager's controllers, which issue an intermediate in the tests of a fleet, into Go's build cache
	@GOWORK=off GOFLAGS= go build -C hack/node/build/cert-manager -trimpath -o /dev/null .

.PHONY: helm
helm: ## helm, with which the tests install the chart, as bin/helm
	@GOFLAGS=-trimpath go build -C hack/chart -o $(BIN)/helm tool

$(LINT): hack/tools/go.mod hack/tools/go.sum
	@echo "building golangci-lint, some minutes the first time …"
	go build -C hack/tools -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
