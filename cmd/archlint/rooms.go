package main

import "maps"

// rooms is the plan of the house: package folder -> class and permitted
// imports of this module. Imports point down; shells do not import each other
// sideways. ARCHITECTURE.md says what each is for.
func rooms() map[string]room {
	all := map[string]room{}
	for _, floor := range []map[string]room{networkRooms(), schedulerRooms(), controlRooms(), policyRooms(), dataRooms(), gpuRooms(), benchRooms()} {
		maps.Copy(all, floor)
	}
	return all
}

// networkRooms carry bytes: links over TCP and RDMA.
func networkRooms() map[string]room {
	return map[string]room{
		"transport/mono":          {leaf, nil},
		"transport/wire":          {core, []string{"transport/mono"}},
		"transport/catalog":       {leaf, []string{"transport/mono", "transport/wire"}},
		"transport/ring":          {leaf, []string{"transport/mono", "transport/histogram"}},
		"transport/sampled":       {shell, nil},
		"transport/nearest":       {leaf, nil},
		"transport/pages":         {leaf, nil},
		"transport/histogram":     {leaf, []string{"transport/mono"}},
		"transport":               {shell, []string{"transport/pages", "transport/mono", "transport/wire"}},
		"transport/loopback":      {shell, []string{"transport", "transport/mono", "transport/wire"}},
		"transport/tcp":           {shell, []string{"transport", "transport/mono", "transport/wire", "transport/ring"}},
		"transport/transporttest": {leaf, []string{"transport", "transport/mono", "transport/wire"}},
		"transport/rdmalink":      {shell, []string{"transport/pages", "transport", "transport/mono", "transport/wire", "transport/tcp", "rdma"}},
		"transport/netprobe":      {shell, []string{"transport", "transport/mono"}},

		"rdma":           {shell, []string{"transport/pages", "transport/mono"}},
		"rdma/discover":  {shell, []string{"rdma"}},
		"rdma/fakeverbs": {leaf, []string{"rdma", "transport/mono"}},
		"rdma/verbstest": {leaf, []string{"rdma", "transport/mono"}},
		"cgo/verbs":      {shell, []string{"rdma", "transport/mono"}},
		"cgo/onnxrt":     {shell, nil},
		"cgo/nvml":       {shell, []string{"backend/telemetry", "backend/telemetry/health", "transport/mono"}},
	}
}

// schedulerRooms decide.
func schedulerRooms() map[string]room {
	return map[string]room{
		"scheduler/pq":         {leaf, nil},
		"scheduler/invariants": {leaf, nil},
		"scheduler/profile":    {core, []string{"transport/mono", "transport/catalog"}},
		"scheduler/batching":   {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/profile", "scheduler/invariants"}},
		"scheduler/shard":      {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/profile", "scheduler/batching", "scheduler/rank", "scheduler/gaps", "scheduler/invariants"}},
		"scheduler/rank":       {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/batching", "scheduler/devices", "scheduler/gaps", "scheduler/invariants"}},
		"scheduler/gaps":       {core, []string{"transport/mono", "transport/wire", "scheduler/devices", "scheduler/invariants"}},
		"scheduler/devices":    {core, []string{"transport/mono", "transport/wire", "scheduler/batching", "scheduler/invariants"}},
		"scheduler/overrun":    {core, []string{"transport/mono"}},
		"scheduler/estimate":   {core, []string{"transport/mono", "transport/wire"}},
		"scheduler/residency":  {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/estimate", "scheduler/invariants"}},
		"scheduler/paged":      {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/batching", "scheduler/devices", "scheduler/estimate", "scheduler/residency", "scheduler/gaps", "scheduler/invariants"}},
		"scheduler/watch":      {core, []string{"transport/mono", "transport/wire", "transport/catalog", "scheduler/profile"}},
		"scheduler/watch/ui":   {shell, []string{"transport/mono", "transport/wire", "scheduler/watch"}},
		"scheduler/coretest":   {leaf, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/profile", "scheduler/batching", "scheduler/shard", "scheduler/rank"}},
		"scheduler/engine":     {shell, []string{"transport/mono", "transport/wire", "transport/ring", "transport/histogram", "scheduler/pq", "scheduler/profile", "scheduler/batching", "scheduler/shard", "scheduler/rank", "scheduler/gaps", "scheduler/residency", "scheduler/paged", "scheduler/policy", "scheduler/tuner", "scheduler/overrun", "scheduler/watch", "scheduler/invariants"}},
		"scheduler/members":    {core, []string{"transport/mono", "transport/wire", "transport/catalog", "scheduler/profile", "scheduler/batching"}},
		"scheduler/standby":    {core, []string{"transport/mono", "transport/wire"}},
		"scheduler/server":     {shell, []string{"scheduler/members", "scheduler/standby", "transport", "transport/sampled", "transport/mono", "transport/wire", "transport/histogram", "transport/catalog", "transport/tcp", "scheduler/profile", "scheduler/batching", "scheduler/shard", "scheduler/rank", "scheduler/residency", "scheduler/paged", "scheduler/policy", "scheduler/tuner", "scheduler/engine", "scheduler/watch", "scheduler/invariants"}},
	}
}

// controlRooms are the control plane, apart from what serves requests: see apart.
func controlRooms() map[string]room {
	return map[string]room{
		"scheduler/control/autoscale":           {core, nil},
		"scheduler/control/scaling":             {core, []string{"transport/mono", "scheduler/control/autoscale"}},
		"scheduler/control/scaler":              {shell, []string{"scheduler/control/scaling"}},
		"scheduler/control/keda":                {shell, []string{"scheduler/control/api", "scheduler/control/keda/externalscaler"}},
		"scheduler/control/keda/externalscaler": {shell, nil},
		"scheduler/control/store/schema":        {core, []string{"transport/mono", "transport/catalog"}},
		"scheduler/control/store":               {shell, []string{"scheduler/control/store/schema"}},
		"scheduler/control/partition":           {core, []string{"transport/mono"}},
		"scheduler/control/partition/highs":     {leaf, []string{"scheduler/control/partition", "transport/mono"}},
		"scheduler/control/plan":                {core, []string{"transport/mono"}},
		"scheduler/control/lead":                {core, []string{"transport/mono", "transport/catalog", "scheduler/profile", "scheduler/batching", "scheduler/control/partition", "scheduler/control/plan", "scheduler/control/store/schema"}},
		"scheduler/control/spread":              {core, []string{"transport/mono"}},
		"scheduler/control/controller":          {shell, []string{"transport", "transport/mono", "transport/wire", "transport/catalog", "scheduler/control/api", "scheduler/control/lead", "scheduler/control/partition", "scheduler/control/plan", "scheduler/control/scaling", "scheduler/control/spread", "scheduler/control/store", "scheduler/control/store/schema"}},
		"scheduler/control/api":                 {shell, []string{"transport/catalog", "transport/nearest"}},
		"scheduler/control/api/fakecontrol":     {leaf, []string{"scheduler/control/api"}},
		"scheduler/control/client":              {shell, []string{"scheduler/control/api"}},
	}
}

// policyRooms are the scheduler and its baselines behind one interface.
func policyRooms() map[string]room {
	policies := map[string]room{
		"scheduler/policy":            {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/profile", "scheduler/batching"}},
		"scheduler/tuner":             {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/profile", "scheduler/batching", "scheduler/rank", "scheduler/policy", "scheduler/policy/deferred", "scheduler/invariants"}},
		"bench/policy/tuned":          {core, []string{"transport/mono", "transport/wire", "scheduler/batching", "scheduler/rank", "scheduler/policy", "scheduler/policy/deferred", "scheduler/tuner"}},
		"scheduler/policy/deferred":   {core, []string{"transport/mono", "transport/wire", "scheduler/profile", "scheduler/batching", "scheduler/shard", "scheduler/rank", "scheduler/devices", "scheduler/residency", "scheduler/paged", "scheduler/policy", "scheduler/gaps", "scheduler/invariants"}},
		"bench/policy/eager":          {core, []string{"scheduler/batching", "scheduler/policy", "scheduler/policy/deferred"}},
		"bench/policy/timeout":        {core, []string{"scheduler/batching", "scheduler/policy", "scheduler/policy/deferred"}},
		"scheduler/policy/policytest": {leaf, []string{"transport/mono", "transport/wire", "scheduler/profile", "scheduler/batching", "scheduler/policy"}},
	}
	// Baselines that have queues and heaps of their own.
	for _, name := range []string{"clockwork", "shepherd", "nexus", "published", "cork"} {
		policies["bench/policy/"+name] = room{core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/profile", "scheduler/batching", "scheduler/policy", "scheduler/invariants"}}
	}
	clockwork := policies["bench/policy/clockwork"]
	clockwork.imports = append(clockwork.imports, "scheduler/estimate", "scheduler/residency")
	policies["bench/policy/clockwork"] = clockwork
	return policies
}

// dataRooms take requests and run batches: frontends and backends.
func dataRooms() map[string]room {
	return map[string]room{
		"frontend":                   {shell, []string{"transport", "transport/sampled", "transport/mono", "transport/wire", "transport/catalog", "transport/ring", "transport/tcp", "frontend/suspects", "frontend/inflight", "frontend/arena", "frontend/preprocess"}},
		"frontend/regions":           {shell, nil},
		"frontend/suspects":          {core, []string{"transport/mono", "transport/wire"}},
		"frontend/inflight":          {core, []string{"transport/mono", "transport/wire", "scheduler/pq"}},
		"frontend/arena":             {shell, []string{"transport", "transport/wire"}},
		"frontend/preprocess":        {core, []string{"transport/catalog"}},
		"frontend/ingress/oip":       {core, []string{"transport/catalog"}},
		"frontend/ingress/malformed": {leaf, nil},
		"frontend/grpcin":            {shell, []string{"frontend", "frontend/grpcin/inference", "frontend/ingress", "frontend/ingress/oip", "frontend/regions", "frontend/tracing", "transport/catalog", "transport/wire", "transport/mono"}},
		"frontend/grpcin/inference":  {shell, nil},
		"frontend/linefile":          {shell, nil},
		"frontend/accesslog":         {shell, []string{"frontend/linefile"}},
		"frontend/recording":         {shell, []string{"frontend/linefile", "transport/mono"}},
		"frontend/tracing":           {shell, []string{"frontend", "transport/mono", "transport/wire"}},
		"frontend/ingress":           {shell, []string{"frontend", "frontend/accesslog", "frontend/recording", "frontend/tracing", "frontend/arena", "frontend/ingress/oip", "frontend/regions", "transport/catalog", "transport/nearest", "transport/wire", "transport/mono"}},

		"backend":                    {shell, []string{"transport", "transport/mono", "transport/wire", "transport/catalog", "transport/tcp", "backend/nice", "backend/executor", "backend/outbound", "backend/emugpu", "backend/onnx", "backend/cuda", "backend/telemetry/health", "backend/repository", "backend/snapshot", "backend/profiler", "backend/warmup", "scheduler/profile", "scheduler/standby"}},
		"backend/outbound":           {shell, []string{"transport", "transport/mono", "transport/wire", "backend/outbound/parts"}},
		"backend/outbound/parts":     {core, []string{"transport/mono", "scheduler/pq"}},
		"backend/executor":           {shell, []string{"backend/outbound", "backend/rerun", "transport", "transport/mono", "transport/wire", "transport/catalog", "transport/ring", "scheduler/invariants"}},
		"backend/rerun":              {core, []string{"transport/mono", "transport/wire"}},
		"backend/emugpu":             {leaf, []string{"transport/mono", "transport/ring", "transport/catalog", "scheduler/profile", "scheduler/pq", "backend/executor"}},
		"backend/onnx":               {shell, []string{"transport/sampled", "backend/nice", "backend/warmup", "transport/mono", "transport/pages", "transport/catalog", "backend/executor", "backend/cuda", "cgo/onnxrt"}},
		"backend/cuda":               {shell, []string{"transport/mono", "transport/pages", "transport/catalog", "scheduler/profile", "backend/executor", "backend/warmup"}},
		"backend/gpulibs":            {leaf, nil},
		"backend/shelf":              {shell, []string{"backend/nice", "transport/catalog"}},
		"backend/nice":               {leaf, nil},
		"backend/repository":         {leaf, []string{"transport/mono", "transport/catalog", "scheduler/profile", "backend/warmup"}},
		"backend/warmup":             {leaf, []string{"transport/catalog"}},
		"backend/profiler":           {leaf, []string{"transport/mono", "transport/catalog", "scheduler/profile", "backend/executor", "backend/warmup"}},
		"backend/snapshot":           {shell, []string{"backend/repository"}},
		"backend/telemetry":          {shell, []string{"transport/mono", "backend/telemetry/health"}},
		"backend/telemetry/health":   {core, []string{"transport/mono"}},
		"backend/telemetry/fakenvml": {leaf, []string{"transport/mono", "backend/telemetry", "backend/telemetry/health"}},
	}
}

// gpuRooms are the doors to GPUs, and the GPUs in software that stand in for them.
func gpuRooms() map[string]room {
	return map[string]room{
		"cgo/cuda":                {shell, []string{"backend/cuda", "transport/mono"}},
		"backend/cuda/fakecuda":   {leaf, []string{"backend/cuda", "transport/mono", "transport/catalog"}},
		"backend/cuda/drivertest": {leaf, []string{"backend/cuda", "transport/mono"}},
	}
}

// benchRooms measure and simulate; deploy checks manifests.
func benchRooms() map[string]room {
	return map[string]room{
		"deploy": {leaf, nil},

		"bench/report":          {leaf, []string{"transport/mono", "transport/wire", "scheduler/profile"}},
		"bench/workload":        {core, []string{"transport/mono", "transport/wire", "scheduler/pq"}},
		"bench/load":            {shell, []string{"bench/report", "bench/workload", "frontend", "transport/mono", "transport/catalog", "transport/wire"}},
		"bench/soak":            {shell, []string{"bench/load", "bench/report", "bench/workload", "frontend", "frontend/ingress/malformed", "scheduler/profile", "transport/catalog", "transport/mono", "transport/wire"}},
		"bench/zoo":             {leaf, []string{"transport/mono", "scheduler/profile"}},
		"bench/plot":            {leaf, []string{"transport/mono"}},
		"bench/httpbench":       {shell, []string{"bench/report", "transport/mono"}},
		"bench/netbench":        {shell, []string{"bench/report", "transport", "transport/mono", "transport/wire", "frontend/arena", "bench/plot"}},
		"bench/peers":           {shell, []string{"bench/load", "bench/report", "bench/workload", "bench/plot", "transport/catalog", "transport/mono"}},
		"bench/cold":            {shell, []string{"bench/load", "bench/paper/clockwork", "bench/report", "bench/sim", "bench/workload", "frontend", "scheduler/batching", "scheduler/profile", "transport/mono", "transport/wire"}},
		"bench/overhead":        {shell, []string{"bench/report", "frontend", "transport/mono", "transport/ring", "transport/wire", "bench/plot"}},
		"bench/schedbench":      {shell, []string{"bench/report", "transport/mono", "transport/wire", "transport/ring", "transport/histogram", "scheduler/profile", "scheduler/batching", "scheduler/shard", "scheduler/rank", "scheduler/tuner", "scheduler/engine", "bench/workload", "bench/zoo", "bench/plot"}},
		"bench/sim":             {core, []string{"transport/mono", "transport/wire", "scheduler/pq", "scheduler/profile", "scheduler/batching", "scheduler/policy", "scheduler/overrun", "scheduler/watch", "bench/workload"}},
		"bench/sim/fleet":       {core, []string{"scheduler/control/plan", "scheduler/pq", "scheduler/profile", "scheduler/batching", "scheduler/policy", "scheduler/policy/deferred", "transport/mono", "transport/wire", "bench/workload"}},
		"bench/fleet":           {shell, []string{"bench/report", "bench/results", "bench/sim/fleet", "bench/plot", "bench/zoo", "scheduler/control/partition", "scheduler/control/plan", "scheduler/profile", "transport/mono"}},
		"bench/sim/scenario":    {leaf, []string{"bench/sim", "scheduler/watch", "bench/zoo", "bench/report", "bench/workload", "scheduler/profile", "transport/mono", "transport/wire", "scheduler/batching", "scheduler/policy", "scheduler/rank", "scheduler/policy/deferred", "bench/policy/tuned", "bench/policy/clockwork", "bench/policy/shepherd", "bench/policy/nexus", "bench/policy/eager", "bench/policy/timeout", "bench/policy/published", "bench/policy/cork"}},
		"bench/sim/acting":      {core, []string{"scheduler/control/scaling", "transport/mono"}},
		"bench/sim/blame":       {core, []string{"bench/sim", "scheduler/batching", "transport/mono", "transport/wire"}},
		"bench/gpu":             {shell, []string{"backend/cuda", "backend/executor", "backend/profiler", "bench/load", "bench/plot", "bench/report", "bench/workload", "frontend", "scheduler/profile", "transport/catalog", "transport/mono", "transport/wire"}},
		"bench/frontier":        {shell, []string{"bench/report", "bench/results", "bench/sim", "bench/sim/scenario", "bench/plot", "transport/mono"}},
		"bench/results":         {leaf, nil},
		"bench/subclusters":     {leaf, []string{"bench/sim", "bench/sim/scenario", "bench/workload", "bench/zoo", "scheduler/batching", "scheduler/control/partition", "scheduler/profile", "transport/mono"}},
		"bench/draws":           {shell, []string{"bench/results", "bench/sim", "bench/sim/blame", "bench/sim/scenario", "bench/report", "bench/workload", "bench/plot", "scheduler/profile", "transport/mono", "transport/wire"}},
		"bench/paper/clockwork": {shell, []string{"bench/paper", "bench/policy/clockwork", "bench/sim", "bench/workload", "bench/zoo", "bench/report", "bench/plot", "scheduler/policy", "scheduler/policy/deferred", "scheduler/batching", "transport/mono", "transport/wire"}},
		"bench/paper":           {shell, []string{"bench/results", "bench/sim", "bench/sim/blame", "bench/sim/scenario", "bench/zoo", "bench/report", "bench/workload", "bench/plot", "bench/subclusters", "scheduler/control/partition", "scheduler/control/partition/highs", "scheduler/control/autoscale", "scheduler/control/scaling", "bench/sim/acting", "scheduler/profile", "scheduler/batching", "scheduler/policy", "bench/policy/tuned", "scheduler/tuner", "transport/mono", "transport/wire"}},
	}
}
