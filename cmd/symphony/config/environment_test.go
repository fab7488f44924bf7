package config

import (
	"reflect"
	"strings"
	"testing"
)

// What the exec scaler tells its command reaches the backends which that command starts.
func TestTheScalersVariablesAreNoKeys(t *testing.T) {
	if _, err := Load("", nil, []string{"SYMPHONY_SCALE_SIZE=2", "SYMPHONY_SCALE_TRY=1", "SYMPHONY_SCALE_WHY=min", "SYMPHONY_SCALE_DEVICE_TYPE=cpu", "SYMPHONY_RDMA_BIN=/x"}); err != nil {
		t.Error(err)
	}
}

// linksOf are the variables that Kubernetes makes of a Service with two ports, of which one has a name.
func linksOf(service, address string) []string {
	url := address
	if strings.Contains(address, ":") {
		url = "[" + address + "]"
	}
	return []string{service + "_SERVICE_HOST=" + address, service + "_SERVICE_PORT=9000", service + "_SERVICE_PORT_HTTP=8000",
		service + "_PORT=tcp://" + url + ":9000", service + "_PORT_9000_TCP=tcp://" + url + ":9000", service + "_PORT_9000_TCP_PROTO=tcp",
		service + "_PORT_9000_TCP_PORT=9000", service + "_PORT_9000_TCP_ADDR=" + address, service + "_PORT_53_UDP=udp://" + url + ":53"}
}

func TestServiceLinksArePassedOver(t *testing.T) {
	for _, service := range []string{"SYMPHONY", "SYMPHONY_FRONTEND", "SYMPHONY_SERVICE", "SYMPHONY_SCHEDULER__LISTEN", "SYMPHONY_PORT"} {
		for _, address := range []string{"10.96.0.12", "fd00::1"} {
			links := linksOf(service, address)
			c, err := Load("", nil, append([]string{"SYMPHONY_SCHEDULER__MODEL_LOOPS=4", "OTHER_SERVICE_HOST=10.0.0.1"}, links...))
			if err != nil || c.Scheduler.ModelLoops != 4 {
				t.Errorf("%s: model_loops %d, %v", service, c.Scheduler.ModelLoops, err)
			}
			if got := ServiceLinks(links); len(got) != len(links) {
				t.Errorf("%s: %d of %d are recognised: %v", service, len(got), len(links), got)
			}
		}
	}
}

// A key that is misspelt is refused although its name could be a link's: also beside a Service's own.
func TestMisspeltKeysAreNoServiceLinks(t *testing.T) {
	group := linksOf("SYMPHONY_FRONTEND", "10.96.0.12")
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{"SYMPHONY_FRONTEND_PORT=8000"}, "enableServiceLinks: false"},
		{[]string{"SYMPHONY_PORT=tcp://10.0.0.1:9000"}, "enableServiceLinks: false"},
		{[]string{"SYMPHONY_SERVICE_HOST=10.0.0.1"}, "enableServiceLinks: false"},
		{[]string{"SYMPHONY_SERVICE_HOST=example.org", "SYMPHONY_SERVICE_PORT=1"}, "service_host: there is no such key"},
		{append(group[1:], "SYMPHONY_FRONTEND_SERVICE_HOST=here"), "frontend_service_host"},
		{append(group[:3:3], "SYMPHONY_FRONTEND_PORT=8000"), "frontend_port: there is no such key"},
		{append(group[:3:3], "SYMPHONY_FRONTEND_HTTP=127.0.0.1:8000"), "frontend_http: there is no such key"},
		{append(group[:3:3], "SYMPHONY_FRONTENDS_PORT=tcp://10.0.0.1:1"), "frontends_port: there is no such key"},
		{append(group[:3:3], "SYMPHONY_FRONTEND_PORT_9000_TCP_ADDR=x"), "frontend_port_9000_tcp_addr"},
	} {
		if _, err := Load("", nil, c.environ); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.environ, err, c.want)
		}
	}
	if _, err := Load("", nil, []string{"SYMPHONY_FRONTEND_HTTP=:8000"}); err == nil || strings.Contains(err.Error(), "enableServiceLinks") {
		t.Errorf("a key that no Service's variable is like: %v", err)
	}
}

// No key could be taken for a service link, whatever its value is.
func TestNoKeyIsNamedAsAServiceLink(t *testing.T) {
	all := keys(reflect.TypeFor[Config](), "")
	for _, key := range all {
		name := strings.ToUpper(strings.ReplaceAll(key, ".", "__"))
		if isReserved(name) && name != "CONTROL" || linkName().MatchString("_"+name) {
			t.Errorf("the variable of %s would be passed over", key)
		}
	}
	c, err := Load("", nil, append(linksOf("SYMPHONY_RDMA_", "10.96.0.12")[:2], "SYMPHONY_RDMA__PORT=2"))
	if err == nil || c.RDMA.Port != 2 {
		t.Errorf("rdma.port is %d, %v", c.RDMA.Port, err)
	}
	if len(all) < 100 {
		t.Errorf("%d keys are known", len(all))
	}
}
