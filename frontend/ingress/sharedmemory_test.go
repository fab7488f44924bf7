package ingress

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A client on this host sends names instead of tensors; what is wrong with them is said before anything
// runs. (Bounds are tested in package regions.)
func TestSharedMemory(t *testing.T) {
	s := start(t, Config{SharedMemory: true})
	f, err := os.CreateTemp("/dev/shm", "symphony-test-*")
	if err != nil {
		t.Skipf("there is no shared memory here: %v", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	tensors := []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL") // two items of FP32 [2,3]
	if _, err := f.Write(append(bytes.Clone(tensors), make([]byte, 100)...)); err != nil {
		t.Fatal(err)
	}
	key := "/" + filepath.Base(f.Name())
	const at = "/v2/systemsharedmemory"
	register := func(name string, offset, size int) answer {
		return s.do("POST", at+"/region/"+name+"/register", fmt.Sprintf(`{"key":%q,"offset":%d,"byte_size":%d}`, key, offset, size))
	}
	s.want(register("r", 0, 148), 200, "")
	s.want(register("r", 0, 148), 409, "already in manager")
	s.want(register("more", 0, 149), 400, "beyond the object's end")
	s.want(s.do("POST", at+"/region/x/register", `{"offset":1}`), 400, "must have key and byte_size")
	s.want(s.do("POST", at+"/region/x/register", `{"key":"/../x","byte_size":1}`), 400, "must be a name as shm_open takes it")
	s.want(s.do("GET", at+"/status", ""), 200, fmt.Sprintf(`[{"byte_size":148,"key":%q,"name":"r","offset":0}]`, key))
	s.want(s.do("GET", at+"/region/r/status", ""), 200, `"name":"r"`)
	s.want(s.do("GET", at+"/region/nobody/status", ""), 404, "Unable to find")
	in := func(region string, offset, size int) string {
		return fmt.Sprintf(`"parameters":{"shared_memory_region":%q,"shared_memory_offset":%d,"shared_memory_byte_size":%d}`, region, offset, size)
	}
	infer := func(items int, input, output string) answer {
		return s.do("POST", "/v2/models/echo-FP32/infer", fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d,2,3],"datatype":"FP32",%s}],"outputs":[{"name":"y",%s}]}`, items, input, output))
	}
	for items, from := range map[int]int{1: 24, 2: 0} {
		s.want(infer(items, in("r", from, items*24), in("r", 48, 100)), 200, fmt.Sprintf(`"parameters":{"shared_memory_region":"r","shared_memory_byte_size":%d,"shared_memory_offset":48,"binary_data_size":0}`, items*24))
		b, err := os.ReadFile(f.Name())
		if err != nil || !bytes.Equal(b[48:48+items*24], tensors[from:from+items*24]) {
			t.Errorf("%d items: %q, %v", items, b[48:], err)
		}
	}
	ok := in("r", 0, 24)
	s.want(infer(1, in("nobody", 0, 24), ok), 404, "Unable to find shared memory region: 'nobody'")
	s.want(infer(1, in("r", 140, 24), ok), 400, "Invalid offset")
	s.want(infer(1, in("r", 0, 25), ok), 400, "25 bytes, its shape")
	s.want(infer(1, ok+`,"data":[1,2,3,4,5,6]`, ok), 400, "given, and data as well")
	s.want(infer(1, `"parameters":{"shared_memory_region":"r"}`, ok), 400, "shared_memory_byte_size: missing")
	s.want(infer(1, ok, in("r", 0, 23)), 400, "should be at least 24 bytes")
	s.want(infer(1, ok, in("r", 140, 24)), 400, "Invalid offset")
	if n := s.fake.served.Load(); n != 3 {
		t.Errorf("%d were served, want the two that were right, of which one is a batch of two", n)
	}
	s.want(s.do("POST", at+"/region/r/unregister", ""), 200, "")
	s.want(infer(1, ok, ok), 404, "Unable to find")
	s.want(s.do("GET", "/v2", ""), 200, "system_shared_memory")
	off := start(t, Config{}) // so it is unless one asks for it
	if said := string(off.do("GET", "/v2", "").body); strings.Contains(said, "system_shared_memory") {
		t.Errorf("it promises what it refuses: %s", said)
	}
	off.want(off.do("POST", at+"/region/r/register", fmt.Sprintf(`{"key":%q,"offset":0,"byte_size":148}`, key)), 501, "frontend.shared_memory: true")
	off.want(off.do("GET", at+"/status", ""), 200, "[]")
	off.want(off.do("POST", "/v2/models/echo-FP32/infer", `{"inputs":[{"name":"x","shape":[1,2,3],"datatype":"FP32",`+ok+`}]}`), 501, "frontend.shared_memory")
}
