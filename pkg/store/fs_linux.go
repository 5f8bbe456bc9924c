package store

import "golang.org/x/sys/unix"

// networkKinds are the file systems on which POSIX locks or the shared memory of
// a WAL cannot be trusted between processes (statfs(2), f_type).
var networkKinds = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x517b:     "SMB",
	0x01021997: "9p",
	0x65735546: "FUSE",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x7461636f: "OCFS2",
	0x01161970: "GFS2",
	0x786f4256: "a virtual machine's shared folder",
}

// statfsType is replaced by tests.
var statfsType = func(dir string) (uint32, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return uint32(st.Type), err
}

// networkFS names the network file system that dir lies on.
func networkFS(dir string) (kind string, network bool) {
	t, err := statfsType(dir)
	if err != nil {
		return "", false // opening the file will say what is wrong
	}
	kind, network = networkKinds[t]
	return kind, network
}
