package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// EnvPrefix starts the environment variables that configure; a double
// underscore stands for the dot between levels.
const EnvPrefix = "SYMPHONY_"

// reserved are variables with the prefix that are not keys: the path of the
// file, of a library, where the control plane is, and what tests read.
func reserved() []string {
	return []string{"CONFIG", "CONTROL", "ONNXRUNTIME", "E2E_FULL", "PRINT", "PYTHON", "TEST_LOG", "RDMA_BIN", "RDMA_OUT", "K8S_BIN"}
}

// reservedPrefixes start variables that are not keys: what tests require, and what a scaler's command
// is told (control.autoscale.command). That command starts backends, which inherit them.
func reservedPrefixes() []string { return []string{"REQUIRE_", "SCALE_"} }

// isReserved reports whether a variable, without the prefix, belongs to another part of the system.
func isReserved(rest string) bool {
	return slices.Contains(reserved(), rest) || slices.ContainsFunc(reservedPrefixes(), func(p string) bool { return strings.HasPrefix(rest, p) })
}

// envLayer is what the environment configures.
func envLayer(environ []string) map[string]any {
	layer := map[string]any{}
	links := ServiceLinks(environ)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, EnvPrefix)
		if !ok || isReserved(rest) || slices.Contains(links, name) {
			continue
		}
		layer[keyOf(rest)] = value
	}
	return layer
}

// keyOf is the key that a variable, without the prefix, sets.
func keyOf(rest string) string { return strings.ReplaceAll(strings.ToLower(rest), "__", ".") }

// ServiceLinks are the variables with the prefix that Kubernetes sets in each container for a Service
// whose name begins with symphony: SYMPHONY_SCHEDULER_SERVICE_HOST, SYMPHONY_SCHEDULER_PORT_9000_TCP_ADDR.
// They are not configuration. Kubernetes sets those of a Service together, so a variable counts only
// where NAME_SERVICE_HOST and NAME_SERVICE_PORT are set, too, and each has a value of its shape. A
// misspelt key (SYMPHONY_FRONTEND_PORT=8000) is refused as ever. No key has such a name.
func ServiceLinks(environ []string) (names []string) {
	set := map[string]string{}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, EnvPrefix) {
			set[name] = value
		}
	}
	for host, address := range set {
		service, is := strings.CutSuffix(host, "_SERVICE_HOST")
		if !is || strings.HasSuffix(service, "_") || !isAddress(address) || !isPort(set[service+"_SERVICE_PORT"]) {
			continue
		}
		for name, value := range set {
			if rest, of := strings.CutPrefix(name, service+"_"); of && isLink(rest, value) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isLink reports whether a variable is one of a Service's: rest is its name without the Service's.
func isLink(rest, value string) bool {
	m := linkName().FindStringSubmatch("_" + rest)
	if m == nil || m[0] != "_"+rest {
		return false
	}
	switch kind := m[1]; {
	case strings.HasPrefix(kind, "SERVICE_PORT"), strings.HasSuffix(kind, "_PORT"):
		return isPort(value)
	case kind == "SERVICE_HOST", strings.HasSuffix(kind, "_ADDR"):
		return isAddress(value)
	case strings.HasSuffix(kind, "_PROTO"):
		return slices.Contains([]string{"tcp", "udp", "sctp"}, value)
	}
	u, err := url.Parse(value) // PORT and PORT_9000_TCP: tcp://10.0.0.1:9000
	return err == nil && isAddress(u.Hostname()) && isPort(u.Port())
}

// linkName matches the end of a service link's name: what follows the Service's, which ends in a
// letter or digit. So RDMA__PORT is a key.
func linkName() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[A-Z0-9])_(SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$`)
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// linkText is the advice on an unknown key whose variable is named as a service link and is not
// recognised as one: its Service's others are missing, or its value is another's.
func linkText(key string, environ []string) string {
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(name, EnvPrefix)
		if ours && keyOf(rest) == key && linkName().MatchString("_"+rest) {
			return ". If Kubernetes made it of a Service: set enableServiceLinks: false in the pod's spec"
		}
	}
	return ""
}
