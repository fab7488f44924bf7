package gpulibs

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// library writes a shared library that has nothing but the names of those it needs.
func library(t *testing.T, path string, machine elf.Machine, needed ...string) {
	t.Helper()
	strs := []byte{0}
	var dyn bytes.Buffer
	for _, n := range needed {
		binary.Write(&dyn, binary.LittleEndian, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: uint64(len(strs))})
		strs = append(append(strs, n...), 0)
	}
	binary.Write(&dyn, binary.LittleEndian, elf.Dyn64{Tag: int64(elf.DT_NULL)})
	names := []byte("\x00.dynstr\x00.dynamic\x00.shstrtab\x00")
	const head = 64
	at := []uint64{head, head + uint64(len(strs)), head + uint64(len(strs)+dyn.Len())}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Shoff: at[2] + uint64(len(names)), Ehsize: head, Shentsize: 64, Shnum: 4, Shstrndx: 3,
	})
	b.Write(strs)
	b.Write(dyn.Bytes())
	b.Write(names)
	for _, s := range []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_STRTAB), Off: at[0], Size: uint64(len(strs)), Addralign: 1},
		{Name: 9, Type: uint32(elf.SHT_DYNAMIC), Off: at[1], Size: uint64(dyn.Len()), Link: 1, Addralign: 1, Entsize: 16},
		{Name: 18, Type: uint32(elf.SHT_STRTAB), Off: at[2], Size: uint64(len(names)), Addralign: 1},
	} {
		binary.Write(&b, binary.LittleEndian, s)
	}
	write(t, path, b.Bytes())
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
